"""Pull requests as files in a bare repository on this machine."""

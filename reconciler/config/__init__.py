"""EDGE. Settings: the only reader of configuration files and environment.

Files become layers (`files`, `layers`), are checked against one definition (`schema`), turned into domain values
(`conversion`) and protected (`trust`); `loading` does this in order. Secrets stay references until `SecretReader`.

Nothing is imported here: a replay needs the `codec` alone, and building the schema is a tenth of its start.
"""

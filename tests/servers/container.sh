# Runs a program as a kubelet would run its container, in a mount namespace of its own: a root that is only read and holds
# nothing but the system, Python and what was installed; a /tmp in memory; another user without any capability.
# container.sh ROOT INSTALLED SECRETS USER READABLE... -- NAME=VALUE... COMMAND...
set -eu
root=$1 installed=$2 secrets=$3 user=$4
shift 4

read_only() { # what is there, at the place where it is
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
}

mount -t tmpfs -o mode=755 tmpfs "$root"
for name in bin sbin lib lib64 usr etc; do
    if [ -L "/$name" ]; then cp -a "/$name" "$root/$name"; elif [ -d "/$name" ]; then read_only "/$name" "/$name"; fi
done
mkdir -p "$root/tmp" "$root/proc" "$root/dev" "$root/var/run/secrets/reconciler"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --rbind /proc "$root/proc"
for device in null urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
read_only "$installed" /opt/reconciler
while [ "$1" != -- ]; do
    read_only "$1" "$1"
    shift
done
shift
mount -t tmpfs -o mode=755 tmpfs "$root/var/run/secrets/reconciler"
cp "$secrets"/* "$root/var/run/secrets/reconciler/"
chown "0:$user" "$root"/var/run/secrets/reconciler/*
chmod 440 "$root"/var/run/secrets/reconciler/*
mount -o remount,ro "$root/var/run/secrets/reconciler"
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --inh-caps=-all \
    --bounding-set=-all env --ignore-environment --chdir=/tmp "$@"

# boot.sh WORK DEPLOY
#
# Makes a root directory from that of this machine, and starts systemd on it as process 1. It runs
# in mount, process, network, host name, ipc and control group namespaces of its own. The root is
# pivoted into: below a chroot, no process can make a user namespace. It exits with 77 where the
# kernel, or a container around, does not allow what it takes.
set -eu
try() { "$@" || { echo "not allowed here: $*" >&2; exit 77; }; }
work=$1 root=$1/root
try mount --make-rprivate /
mkdir "$root"
try mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p usr etc var/lib var/log var/tmp run tmp dev proc sys root home old srv/project out
chmod 1777 tmp var/tmp
mount --rbind /usr usr
for dir in bin sbin lib lib32 lib64 libx32; do
	if [ -L "/$dir" ]; then ln -s "$(readlink "/$dir")" "$dir"; elif [ -d "/$dir" ]; then mkdir "$dir" && mount --rbind "/$dir" "$dir"; fi
done
try cp -a /etc/. etc/
# Of this machine's services none is started.
rm -rf etc/sandboxd etc/systemd/system etc/machine-id
mkdir -p etc/systemd/system/multi-user.target.wants
echo 0123456789abcdef0123456789abcdef >etc/machine-id
mount -t tmpfs -o mode=755 tmpfs dev
for d in null zero full random urandom tty; do
	touch "dev/$d" && mount --bind "/dev/$d" "dev/$d"
done
mkdir dev/pts dev/shm
try mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd
mount -t tmpfs tmpfs dev/shm
try mount -t proc proc proc
try mount -t sysfs sysfs sys
try mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs usr/local/bin
install -m 755 "$work/sandboxd" "$work/sandboxd-child" "$work/sandboxd-agent" usr/local/bin/
install -m 755 "$work/operate.test" etc/operate.test
cp -r "$2" srv/deploy
mount --bind "$work/out" out
cat >etc/systemd/system/operate.service <<'UNIT'
[Service]
Type=oneshot
Environment=OPERATE_SYSTEMD=inside
ExecStart=/etc/operate.test -test.v -test.run=^TestUnderSystemd$ -test.timeout=14m
StandardOutput=file:/out/log
StandardError=file:/out/log
ExecStopPost=systemctl --force --force poweroff
UNIT
ln -s ../operate.service etc/systemd/system/multi-user.target.wants/
try pivot_root . old
umount -l /old
exec env -i container=operate PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --system --log-target=console --show-status=0 --unit=multi-user.target

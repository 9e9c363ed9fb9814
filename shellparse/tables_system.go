package shellparse

// tableSystem are programs that look at the machine or administer it.
var tableSystem = []string{
	"apt,apt-get,apt-cache,aptitude,apt-mark,apt-key,apk,dnf,yum,pacman,zypper,brew,port,emerge,snap,flatpak,xbps-install,nix-env,opkg,pkg | -o,--option:x -c,--config-file:r -t:d -a:d -q:d? --root,--installroot:w -y --setopt:x -f | m* | do=apt",
	"ps,top,htop,btop,free,vmstat,iostat,mpstat,sar,uptime,w,who,last,lastb,users,id,groups,whoami,logname,uname,hostname,hostnamectl,timedatectl,localectl,loginctl,lscpu,lsblk,lspci,lsusb,lsmod,dmesg,getconf,locale,findmnt,blkid,lsns,ipcs,pidof,pmap,pwdx,pstree,slabtop,tload,numastat,nvidia-smi,sensors,upower,acpi,getent,sw_vers,system_profiler,vm_stat,runlevel,tty,lslocks,lsipc,lslogins,lsmem,chcpu | -o:d -p:d -u:d -U:d -t:d -C:d -g:d -n:d -d:d -s:d -F,--file:r -f:d? -w:d | d*",
	"systemctl,service,journalctl,initctl,rc-service,sv,launchctl,coredumpctl,machinectl,busctl,networkctl,supervisorctl,pm2,monit | -u,--unit:d -n,--lines:d -t:d -p:d -o:d -S,--since:d -U,--until:d --root:w --file:r -D,--directory:r -M:d -H:h -c:r | d*",
	"mount,umount,losetup,swapon,swapoff,fsck,mkfs,mke2fs,mkfs.ext4,mkfs.xfs,mkswap,fdisk,sfdisk,parted,wipefs,blockdev,tune2fs,resize2fs,debugfs,cryptsetup,dmsetup,lvm,pvcreate,vgcreate,lvcreate,mdadm,hdparm,smartctl,badblocks,e2fsck,partprobe,fstrim | -t:d -o:d -L:d -U:d -f:r -O:d -b:d | b*",
	"useradd,userdel,usermod,groupadd,groupdel,groupmod,passwd,chpasswd,chsh,chfn,adduser,deluser,visudo,vipw,vigr,newusers,gpasswd | -d,--home:w -m -s,--shell:d -g:d -G:d -u:d -c:d -k:r -R,--root:w -f:w -p:d -e:d -r | d*",
	"insmod,modprobe,rmmod,depmod,kexec,sysctl,ldconfig,update-alternatives,update-initramfs,grub-install,setcap,getcap,auditctl,apparmor_parser,setenforce,semanage,restorecon,chcon,swapctl,hwclock | -p,--load:r -C:r -d:r -w -n -f:r -r:r -t:d -u:d | m*",
	"reboot,shutdown,halt,poweroff,init,telinit,wall,write,mesg,loadkeys,setterm,chvt,openvt,logger | -t:d -p:d -f,--file:r | d*",
	"multitail,lnav,ccze,goaccess | -n:d -f:r | r*",
	"notify-send,xdg-open,open,xclip,xsel,wl-copy,wl-paste,pbcopy,pbpaste,say,afplay,zenity,dialog,whiptail | -i:r -o -selection:d -sel:d -t:d -u:d -a:d | m*",
	"convert,magick,identify,mogrify,ffmpeg,ffprobe,sox,exiftool,gs,pdftotext,qpdf,inkscape,dot,plantuml,gifsicle,optipng,jpegoptim,cwebp,mediainfo,yt-dlp,tesseract,qrencode | -i:r -o:w -f:d -c:d -resize:d -quality:d -r:d -s:d -t:d -vf:d -af:d -T:d -K:d -G:d --exec:s -exec:s | b* | single",
	"cowthink,lolcat,toilet,fortune,sl | -f:r | d*",
	"claude,codex,gemini,aider,cursor,code,subl,idea,zed | -p:d | m*",
}

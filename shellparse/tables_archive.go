package shellparse

// tableArchive are archivers and compressors.
var tableArchive = []string{
	"tar,gtar,bsdtar | -f,--file:d -C,--directory:d -T,--files-from:r -X,--exclude-from:r -I,--use-compress-program:s --to-command:s --rsh-command:s --rmt-command:s -F,--info-script,--new-volume-script:s --checkpoint-action:d --checkpoint:d? --exclude:d -g,--listed-incremental:b --index-file:w --volno-file:b -V,--label:d -b,--blocking-factor:d -N,--newer,--after-date,--newer-mtime:d -K,--starting-file:d -L,--tape-length:d -H,--format:d --transform,--xform:d --strip-components:d --owner,--group,--mode,--mtime,--owner-map,--group-map:d --suffix:d --sort:d --warning:d --quoting-style:d --record-size:d --one-top-level:w? --add-file:r --backup:d? --pax-option:d --totals:d? --exclude-vcs-ignores --remove-files!move -c,--create!create -x,--extract,--get!extract -t,--list!list -r,--append!create -u,--update!create -A,--catenate,--concatenate!create -d,--diff,--compare!list --delete!create --test-label!list -O,--to-stdout!stdout | d* | do=tar",
	"zip | -T -TT,--unzip-command:s -b,--temp-path:w -x,--exclude,-i,--include:d -n,--suffixes:d -t,-tt:d -O,--out,--output-file:w -@ -P,--password:d -z -r,--recurse-paths -R -m,--move!move -s:d -Z:d -lf:w -la -j -q -u -f -d -e -A -F -FF -9,-8,-7,-6,-5,-4,-3,-2,-1,-0 | w R* | single do=zip",
	"unzip,zipinfo,bsdunzip | -d:w -P:d -x:d -O:d -I:d -l,-t,-v,-Z,-z,-p,-c!list | r d* | do=unzip",
	"gzip,gunzip,pigz,bzip2,bunzip2,pbzip2,xz,unxz,lzma,unlzma,lzip,zstd,unzstd,lz4,unlz4,brotli,lzop,compress,uncompress | -S,--suffix:d -o,--output,-O:w -D:r --patch-from:r -T,--threads:d -c,--stdout,--to-stdout,-t,--test,-l,--list!tostdout -r,--recursive!rec -b:d -p:d --format:d -M:d -m:d -q:d? -w:d? --output-dir-flat,--output-dir-mirror:w --files,--files0:r? | b* | do=compress",
	"7z,7za,7zr,p7zip | -o:w? -p:d? -x:d? -i:d? -w:w? -t:d? -m:d? -si:d? -so | d b r* | single",
	"rar,unrar | -p:d -x:d | d b r*",
	"cpio | -I:r -O:w -F,--file:b -D,--directory:c -E,--pattern-file:r --rsh-command:s -H:d -C:d -M:d -R:d -i,--extract,-p,--pass-through!extract -o,--create -u,-d,-m,-v,-t,-A,-a,-b,-B,-c,-f,-k,-l,-L,-n,-r,-s,-S,-V,-0 | w* | do=cpio",
	"shar,unshar,makeself,star,pax | -o:w -f:b -d:w -w,-r -s:d -x:d -b:d | R*",
	"genisoimage,mkisofs,xorriso,mksquashfs,unsquashfs | -o,-d,-dest,-outdev:w -V:d -e:r -ef:r | R* | single",
	"dpkg,dpkg-deb,dpkg-query,rpm,rpmbuild | --root,--admindir,--instdir:w --pre-invoke,--post-invoke,--hook:x -f,--showformat,--queryformat:d -x,-X,--extract,-e,--control,-c,--contents,-I,--info,--fsys-tarfile -i,--install,-U!install -L,-S,-s,-l,--list,--listfiles,--search,--status,-p,-W!query -b,--build -E,--eval:x --define,-D:x --pipe:s | m* | do=dpkg",
}

package shellparse

// tableEditors can run anything that is typed or given to them.
var tableEditors = []string{
	"vim.basic,vim.tiny,vim.nox,vim.gtk3,editor,sensible-editor,vim,vi,nvim,gvim,view,vimdiff,rvim,ex,rview,nvi,elvis,vile | -c,--cmd:o -S:o -u,-U,-i,-r,-L,-W,-w:r -T:d -t:o -s:r -d,-e,-E,-n,-R,-M,-N,-X,-y,-Z,-b,-h,-o,-O,-p --startuptime:w --listen,--server,--remote:d -l:r -V:d? | b* | do=vim",
	"emacs,emacsclient,mg,xemacs,jed | --eval,-eval,-e,--execute,-execute:o -f,--funcall:o -l,--load:r --script,-script:r -batch,--batch -q -nw -Q --alternate-editor,-a:s | b* | single",
	"nano,pico,micro,joe,kak,helix,hx,ee,ne,jmacs,rnano,gedit,kate,mcedit,mousepad | -s,--speller:p -C,--backupdir:w -f,--rcfile:r -e:o -ui:d | b*",
	"ed,red | -p:d -s | b | do=ed",
	"less,pg,most | -o,-O,--log-file,--LOG-FILE:w -k,--lesskey-file,--lesskey-src:x -p,--pattern:d -P,--prompt:d -t,--tag:d -T,--tag-file:r -b:d -h:d -j:d -x:d -y:d -z:d -D:d | r* | do=less",
	"man,info,pinfo | -P,--pager:s -H,--html:s? -C,--config-file:r -M,--manpath:x -L:d -m:d -S,-s:d -e:d -p:d -r:d -R:d -E:d -l,--local-file!local -f,--file:r -o,--output:w -d:r | d* | do=man",
	"mc,ranger,nnn,lf,vifm,yazi,fzf,peco,sk,gum | --preview,--bind:s -f:d --filter:d -q:d --prompt:d --header:d -c,--cmd,-command:o -e:o | m* | do=fzf",
}

package search

import (
	"maps"
	"slices"
	"strings"
)

// fileTypes maps the type names of ripgrep to globs.
var fileTypes = map[string]string{
	"c":       "*.{c,h,H,cats}",
	"cpp":     "*.{C,H,cc,cpp,cxx,c++,hh,hpp,hxx,h++,inl,h}",
	"cs":      "*.cs",
	"css":     "*.{css,scss}",
	"dart":    "*.dart",
	"elixir":  "*.{ex,eex,exs,heex,leex,livemd}",
	"go":      "*.go",
	"haskell": "*.{hs,lhs,cpphs,c2hs,hsc}",
	"html":    "*.{htm,html,ejs}",
	"java":    "*.{java,jsp,jspx,properties}",
	"js":      "*.{js,jsx,vue,cjs,mjs}",
	"json":    "*.{json,sarif}",
	"kotlin":  "*.{kt,kts}",
	"lua":     "*.lua",
	"make": "{*.mk,*.mak,[Gg][Nn][Uu]makefile,[Mm]akefile,[Gg][Nn][Uu]makefile.am,[Mm]akefile.am," +
		"[Gg][Nn][Uu]makefile.in,[Mm]akefile.in}",
	"markdown": "*.{markdown,md,mdown,mdwn,mkd,mkdn,mdx}",
	"md":       "*.{markdown,md,mdown,mdwn,mkd,mkdn,mdx}",
	"php":      "*.{php,php3,php4,php5,php7,php8,pht,phtml}",
	"py":       "*.{py,pyi}",
	"rb":       "*.{rb,rbw,gemspec}",
	"rego":     "*.rego",
	"ruby":     "{*.rb,*.rbw,*.gemspec,config.ru,Gemfile,.irbrc,Rakefile}",
	"rust":     "*.rs",
	"scala":    "*.{scala,sbt}",
	"sh":       "*.{bash,csh,ksh,sh,tcsh,zsh}",
	"sql":      "*.{sql,psql}",
	"swift":    "*.swift",
	"toml":     "{*.toml,Cargo.lock}",
	"ts":       "*.{ts,tsx,cts,mts}",
	"txt":      "*.txt",
	"xml":      "*.{xml,xml.dist,dtd,xsl,xslt,xsd,xjb,rng,sch,xhtml}",
	"yaml":     "*.{yaml,yml}",
	"zig":      "*.zig",
}

func typeNames() string {
	return strings.Join(slices.Sorted(maps.Keys(fileTypes)), ", ")
}

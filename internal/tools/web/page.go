package web

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// pageMemory is the most memory that a page of the largest size takes: its bytes, its tree, its text.
const pageMemory = 24 << 20

// maxNodes bounds the tree of a page: 1 MiB of "<b>" would be 350,000 nodes.
const maxNodes = 60_000

// maxNesting bounds how deep lists and quotes are nested, because each line of the text begins with the marks of all
// of them.
const maxNesting = 10

// toMarkdown turns a page into Markdown, without scripts and styles. Links are absolute.
func toMarkdown(text []byte, u *url.URL) (out string, err error) {
	defer func() { // anybody may have written the page
		if p := recover(); p != nil {
			err = fmt.Errorf("convert it: %v", p)
		}
	}()
	if n := bytes.Count(text, []byte("<")); n > maxNodes {
		return "", fmt.Errorf("it has %d tags, more than %d", n, maxNodes)
	}
	doc, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	prepare(doc, u)
	c := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
	md, err := c.ConvertNode(doc)
	return string(md), err
}

// maxColumns bounds the columns of a table, because each row is written with as many cells as the widest row has.
const maxColumns = 64

// prepare makes links absolute. It flattens the parts that would make the text many times as long as the page: lists
// and quotes that are nested too deep, wide tables, cells that span others. The parser itself bounds nesting at 512.
func prepare(doc *html.Node, u *url.URL) {
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Base || attribute(n, "href") == "" {
			continue
		}
		if to, err := u.Parse(attribute(n, "href")); err == nil {
			u = to
		}
		break
	}
	var walk func(n *html.Node, nesting int)
	walk = func(n *html.Node, nesting int) {
		switch n.DataAtom {
		case atom.Ul, atom.Ol, atom.Blockquote:
			if nesting++; nesting > maxNesting {
				n.DataAtom, n.Data = atom.Div, "div"
			}
		case atom.Tr:
			cells := 0
			for cell := range n.ChildNodes() {
				if cell.DataAtom == atom.Td || cell.DataAtom == atom.Th {
					cells++
				}
			}
			if cells > maxColumns {
				flattenTable(n)
			}
		case atom.Li:
			if nesting > maxNesting {
				n.DataAtom, n.Data = atom.Div, "div"
			}
		}
		for i := range n.Attr {
			switch a := &n.Attr[i]; a.Key {
			case "href", "src":
				if to, err := u.Parse(strings.TrimSpace(a.Val)); err == nil {
					a.Val = to.String()
				}
			case "colspan", "rowspan":
				a.Val = "1"
			}
		}
		for kid := range n.ChildNodes() {
			walk(kid, nesting)
		}
	}
	walk(doc, 0)
}

// flattenTable turns the table that holds row into plain text, one line for each row and cell.
func flattenTable(row *html.Node) {
	t := row
	for t.DataAtom != atom.Table && t.Parent != nil {
		t = t.Parent
	}
	for n := range t.Descendants() {
		switch n.DataAtom {
		case atom.Tr, atom.Thead, atom.Tbody, atom.Tfoot:
			n.DataAtom, n.Data = atom.Div, "div"
		case atom.Td, atom.Th:
			n.DataAtom, n.Data = atom.Span, "span"
		}
	}
	t.DataAtom, t.Data = atom.Div, "div"
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

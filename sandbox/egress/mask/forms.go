package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf16"
)

// formsOf returns the ways to write a secret that the usual programs have.
func formsOf(secret string) [][]byte {
	raw := []byte(secret)
	texts := []string{
		secret, strings.ToUpper(secret), strings.ToLower(secret),
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
	}
	texts = append(texts, inURLs(secret)...)
	texts = append(texts, inHTML(secret)...)
	texts = append(texts, inJSON(secret)...)
	texts = append(texts, inBase64(raw)...)
	var out [][]byte
	for _, t := range texts {
		if len(t) >= Least {
			out = append(out, []byte(t))
		}
	}
	return out
}

// inURLs returns the escapes of paths and queries, of encodeURI and encodeURIComponent, of Python's quote, and of
// whoever escapes all; each with hex in both cases.
func inURLs(secret string) []string {
	component := strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")
	var all strings.Builder
	for _, c := range []byte(secret) {
		fmt.Fprintf(&all, "%%%02X", c)
	}
	var out []string
	for _, text := range []string{
		url.QueryEscape(secret), url.PathEscape(secret), component, escaped(component, "/"),
		escaped(component, "!'()*"), escaped(component, "!'()*;/?:@&=+$,#"), escaped(component, "!*()"),
		strings.ReplaceAll(component, "~", "%7E"), all.String(),
	} {
		out = append(out, text, lowerHex(text))
	}
	return out
}

// escaped takes the escapes of some characters back.
func escaped(text, plain string) string {
	for _, c := range []byte(plain) {
		text = strings.ReplaceAll(text, fmt.Sprintf("%%%02X", c), string(rune(c)))
	}
	return text
}

// lowerHex writes the digits of escapes in lower case.
func lowerHex(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// inHTML returns the names and numbers that the usual libraries give to quotes, and the numbers of all characters.
func inHTML(secret string) []string {
	out := []string{html.EscapeString(secret)}
	for _, quote := range []string{"&quot;", "&#34;", "&#x22;", `"`} {
		for _, single := range []string{"&#39;", "&#039;", "&#x27;", "&apos;", "'"} {
			out = append(out, strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, quote, "'", single).
				Replace(secret))
		}
	}
	for _, format := range []string{"&#%d;", "&#x%x;", "&#x%X;", "&#X%X;", "&#x%02x;", "&#x%02X;"} {
		var all strings.Builder
		for _, r := range secret {
			fmt.Fprintf(&all, format, r)
		}
		out = append(out, all.String())
	}
	return out
}

// inJSON returns the escapes of Go, of those that escape less or all beyond ASCII, and of all characters; each also
// with slashes escaped.
func inJSON(secret string) []string {
	marshalled, _ := json.Marshal(secret)
	careful := strings.TrimSuffix(strings.TrimPrefix(string(marshalled), `"`), `"`)
	least := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`).Replace(secret)
	out := []string{secret}
	for _, text := range []string{careful, least} {
		for _, format := range []string{"%c", `\u%04x`, `\u%04X`} {
			out = append(out, unicodes(text, format, 0x80))
		}
	}
	for _, text := range out {
		out = append(out, strings.ReplaceAll(text, "/", `\/`))
	}
	return append(out, unicodes(secret, `\u%04x`, 0), unicodes(secret, `\u%04X`, 0))
}

// unicodes writes the characters from one on in a format; %c leaves them.
func unicodes(text, format string, from rune) string {
	if format == "%c" {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if r < from {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, format, unit)
		}
	}
	return out.String()
}

func inBase64(raw []byte) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			// What stands before and after changes the first and the last character.
			text := enc.EncodeToString(append(make([]byte, before), raw...))
			first := []int{0, 2, 3}[before]
			last := len(text)
			if (before+len(raw))%3 != 0 {
				last--
			}
			out = append(out, text[first:last])
		}
	}
	return out
}

package source

import (
	"strconv"
	"strings"
)

// AnsiC decodes the text of $'…'. As in bash, NUL ends it.
func AnsiC(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if simple := strings.IndexByte(`abeEfnrtv\'"?`, s[i]); simple >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[simple])
			continue
		}
		var r int64
		n := 0
		switch c := s[i]; {
		case c == 'c' && i+1 < len(s):
			i++
			r, n = int64(s[i]&0x1f), 1
			if strings.HasPrefix(s[i:], `\\`) { // it takes both
				i++
			}
		case c == 'x' && strings.HasPrefix(s[i+1:], "{"): // as many digits as there are, of which the last two count
			digits := s[i+2:]
			_, n = Digits(digits, 16, len(digits))
			r, _ = Digits(digits[max(0, n-2):n], 16, 2)
			i += 1 + n
			if strings.HasPrefix(digits[n:], "}") {
				i++
			}
			n = 1 // without a digit it is NUL
		case c == 'x':
			r, n = Digits(s[i+1:], 16, 2)
			i += n
		case c == 'u' || c == 'U':
			r, n = Digits(s[i+1:], 16, map[byte]int{'u': 4, 'U': 8}[c])
			i += n
			if n > 0 && r > 0 {
				b.WriteRune(rune(r))
				continue
			}
		case '0' <= c && c <= '7':
			r, n = Digits(s[i:], 8, 3)
			i += n - 1
		}
		if n == 0 { // not an escape: both characters stay
			b.WriteByte('\\')
			b.WriteByte(s[i])
			continue
		}
		if r&0xff == 0 {
			break
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}

// Digits reads up to most digits of a base. It returns their value and how many they are.
func Digits(s string, base, most int) (int64, int) {
	n := 0
	for n < len(s) && n < most {
		if _, err := strconv.ParseInt(s[n:n+1], base, 64); err != nil {
			break
		}
		n++
	}
	v, _ := strconv.ParseInt(s[:n], base, 64)
	return v, n
}

// UnescapeDouble removes the backslashes that mean something in double quotes, save those at the end of a line.
func UnescapeDouble(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

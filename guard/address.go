package guard

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// ParseURL parses the address of a page that every program reads in the same way: http or
// https, a host in ASCII, no user and no password. Its host is canonical, its fragment is gone.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	odd := strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' })
	if odd || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		!plainHost.MatchString(u.Hostname()) {
		return nil, fmt.Errorf("%.200q is no address that every program reads in the same way", address)
	}
	host, err := CanonicalHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return nil, fmt.Errorf("%.200q has no port that can be", address)
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// plainHost is a name or a number. A name in other letters is written in them by some programs
// and in ASCII by others.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)

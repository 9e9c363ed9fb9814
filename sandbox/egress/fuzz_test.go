package egress

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandboxd/sandboxd/guard"
)

// Whatever a program asks, it learns synthetic addresses of names that may be reached.
func FuzzLookUp(f *testing.F) {
	for _, name := range []string{"a.test.", "b.test.", "localhost.", "x.wild.test.", "a\x00.test.", "1.0.18.198.in-addr.arpa."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeALL, dnsmessage.TypeOPT} {
			q := dnsmessage.Message{Questions: []dnsmessage.Question{{
				Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET,
			}}}
			packed, err := q.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packed)
			q.Questions = append(q.Questions, q.Questions[0])
			if packed, err = q.Pack(); err == nil {
				f.Add(packed)
			}
		}
	}
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01")) // a name that points at itself
	n := NewNetwork(&Dialer{}, callOf)
	defer n.Close()
	n.Begin(1, CallOptions{Network: guard.Network{AllowedDomains: []string{"a.test", "*.wild.test"}}})
	f.Fuzz(func(t *testing.T, query []byte) {
		packed := n.answer(query, 0)
		if packed == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(packed); err != nil {
			t.Fatalf("the answer: %v", err)
		}
		if !m.Response || m.ID != uint16(query[0])<<8|uint16(query[1]) || len(packed) > len(query)+16 {
			t.Fatalf("got %+v of %d bytes", m.Header, len(packed))
		}
		for _, a := range m.Answers {
			name, err := guard.CanonicalHost(a.Header.Name.String())
			if err != nil {
				t.Fatal(err)
			}
			at := netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A)
			own := strings.HasSuffix("."+name, ".localhost") || name == hostName
			mine := name == "a.test" || strings.HasSuffix(name, ".wild.test")
			if of, ok := n.names.name(at); own != (at.String() == "127.0.0.1") || !own && (!mine || !ok || of != name) {
				t.Fatalf("%s got %s", name, at)
			}
		}
	})
}

// Nothing of a hello is lost or added, and its name is what crypto/tls takes it for.
func FuzzServerName(f *testing.F) {
	for _, name := range []string{"a.test", "", "A.test", strings.Repeat("a", 60) + ".test"} {
		hello := clientHello(f, name)
		f.Add(hello)
		f.Add(fragmented(hello, 1))
		f.Add(fragmented(hello, 700))
		f.Add(hello[:len(hello)/2])
		f.Add(append(hello, hello...))
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0xff, 0xff, 1, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(sent)
		name, read, err := serverName(r)
		if !bytes.Equal(read, sent[:len(sent)-r.Len()]) || len(read) > maxHello {
			t.Fatalf("%d bytes were read, %d are kept", len(sent)-r.Len(), len(read))
		}
		if err == nil && name != "" && !bytes.Contains(joined(read), []byte(name)) {
			t.Fatalf("%q is not in the hello", name)
		}
	})
}

// joined is what records carry.
func joined(records []byte) []byte {
	var out []byte
	for len(records) >= 5 {
		n := min(int(records[3])<<8|int(records[4]), len(records)-5)
		out = append(out, records[5:5+n]...)
		records = records[5+n:]
	}
	return out
}

// readWriter answers into nothing.
type readWriter struct{ io.Reader }

func (readWriter) Write(p []byte) (int, error) { return len(p), nil }

// What is asked for is a canonical name with a port, or refused.
func FuzzSOCKS5(f *testing.F) {
	request := func(kind byte, address string, port int) []byte {
		return append(append([]byte{1, 0, 5, 1, 0, kind}, address...), byte(port>>8), byte(port))
	}
	f.Add(request(3, "\x06a.test", 443))
	f.Add(request(3, "\x09a.test\x00.b", 443))
	f.Add(request(3, "\x09127.0.0.1", 443))
	f.Add(request(3, "\x00", 443))
	f.Add(request(1, "\x7f\x00\x00\x01", 443))
	f.Add(request(4, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", 443))
	f.Add([]byte{2, 1, 2, 5, 1, 0, 3})
	f.Add([]byte{255})
	call := NewCall(&Dialer{}, CallOptions{})
	f.Fuzz(func(t *testing.T, sent []byte) {
		host, port, code := call.socksRequest(readWriter{bytes.NewReader(sent)})
		if code != socksOK {
			if host != "" {
				t.Fatalf("refused, and the host is %q", host)
			}
			return
		}
		if again, err := guard.CanonicalHost(host); err != nil || again != host || port < 1 || port > 65535 {
			t.Fatalf("got %q, %d", host, port)
		}
		if _, err := netip.ParseAddr(host); err == nil {
			t.Fatalf("%s is an address", host)
		}
	})
}

// Every request that reaches the host was judged as it arrives there.
func FuzzRequest(f *testing.F) {
	for _, text := range attacks {
		f.Add([]byte(text.request))
	}
	w := newWorld(f)
	var mu sync.Mutex
	var arrived []string
	w.web("a.test", func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		mu.Lock()
		arrived = append(arrived, fmt.Sprintf("%s %s http://%s%s", "a.test:80", r.Method, r.Host, r.URL.EscapedPath()))
		mu.Unlock()
	})
	w.call.testOnlyHalfClosed = 100 * time.Millisecond // an input that takes 10 s counts as one that hangs
	at := w.listenAt("a.test", 80)
	judged := map[string]bool{}
	f.Fuzz(func(t *testing.T, sent []byte) {
		if strings.Contains(strings.ToLower(string(sent)), "expect") {
			return // waits for the second that it is given
		}
		conn, err := from(w.source).Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		conn.Write(sent)
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
		for _, k := range w.questions() {
			judged[fmt.Sprintf("%s:%d %s http://%s%s", k.Host, k.Port, k.Method, k.Host, k.Path)] = true
		}
		mu.Lock() // what has been refused half-way may arrive with the next input
		defer mu.Unlock()
		for _, a := range arrived {
			if !judged[a] {
				t.Fatalf("%q arrived, judged were %v", a, judged)
			}
		}
		arrived = nil
		w.mu.Lock()
		w.judged, w.seen = nil, nil
		w.mu.Unlock()
	})
}

package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandboxd/sandboxd/guard"
)

const (
	nameTTL  = 60        // seconds; the address of a name never changes
	hostName = "sandbox" // of the namespace, see package child
)

// ServeResolver answers DNS queries over UDP and TCP. A name that may be reached gets its
// synthetic address; nothing is ever asked of another resolver. It returns at once and owns
// both.
func (n *Network) ServeResolver(packets net.PacketConn, streams net.Listener) {
	if n.own(packets, nil) {
		go n.answerPackets(packets)
	} else {
		packets.Close()
	}
	if n.own(streams, nil) {
		go n.answerStreams(streams)
	} else {
		streams.Close()
	}
}

func (n *Network) answerPackets(packets net.PacketConn) {
	defer n.disown(packets, nil)
	query := make([]byte, 64<<10)
	for {
		size, from, err := packets.ReadFrom(query)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one packet: the port that the answer before went to is closed
		}
		n.slow()
		if answer := n.answer(query[:size], 0); answer != nil {
			packets.WriteTo(answer, from)
		}
	}
}

func (n *Network) answerStreams(l net.Listener) {
	defer n.disown(l, nil)
	room := make(chan struct{}, maxLookups)
	n.accept(l, func(conn net.Conn) {
		select {
		case room <- struct{}{}:
		default:
			conn.Close()
			return
		}
		if !n.own(conn, nil) {
			conn.Close()
			return
		}
		go func() {
			defer n.disown(conn, nil)
			defer func() { <-room }()
			n.answerStream(conn)
		}()
	})
}

func (n *Network) answerStream(conn net.Conn) {
	from := n.callOf(conn)
	for size := make([]byte, 2); ; {
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		n.slow()
		answer := n.answer(query, from)
		if answer == nil {
			return
		}
		sized := append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)
		if _, err := conn.Write(sized); err != nil {
			return
		}
	}
}

// slow waits while look-ups come too fast, and not after Close.
func (n *Network) slow() {
	delay := n.paced.Reserve().Delay()
	if delay <= 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.done:
	}
}

// answer returns the answer to a query; nil: none is given.
func (n *Network) answer(query []byte, from uint32) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	reply := dnsmessage.Header{
		ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true,
	}
	questions, err := p.AllQuestions()
	switch {
	case h.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
		return pack(reply, nil, nil)
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
		return pack(reply, nil, nil)
	case questions[0].Class != dnsmessage.ClassINET:
		reply.RCode = dnsmessage.RCodeRefused
		return pack(reply, questions, nil)
	}
	q := questions[0]
	address, code := n.resolve(q.Name.String(), q.Type, from)
	reply.RCode = code
	return pack(reply, questions, address)
}

// resolve returns the address that answers a question; nil with success: the name has no such record.
func (n *Network) resolve(text string, kind dnsmessage.Type, from uint32) (*dnsmessage.AResource, dnsmessage.RCode) {
	wantsA := kind == dnsmessage.TypeA || kind == dnsmessage.TypeALL
	name, err := guard.CanonicalHost(text)
	if err != nil {
		n.refuseName(from, shown(strings.TrimSuffix(text, ".")), "what was looked up is no host name")
		return nil, dnsmessage.RCodeNameError
	}
	if strings.HasSuffix(name, ".arpa") {
		return nil, dnsmessage.RCodeNameError
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || name == hostName {
		if wantsA {
			return &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}, dnsmessage.RCodeSuccess
		}
		return nil, dnsmessage.RCodeSuccess
	}
	beside := slices.Contains(askedBeside, kind)
	if !n.mayResolve(name, from, !beside) {
		return nil, dnsmessage.RCodeNameError
	}
	if !wantsA {
		if !beside {
			n.refuseName(from, name, strings.TrimPrefix(kind.String(), "Type")+
				" records were looked up; only addresses are answered, and nobody outside is asked")
		}
		return nil, dnsmessage.RCodeSuccess
	}
	a, ok := n.names.address(name)
	if !ok {
		return nil, dnsmessage.RCodeServerFailure
	}
	return &dnsmessage.AResource{A: a.As4()}, dnsmessage.RCodeSuccess
}

// askedBeside are what programs look up beside the address that they need; a row for each would
// count one look-up several times.
var askedBeside = []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeHTTPS, dnsmessage.TypeSVCB}

// askers returns the calls that may have asked: all, if it is not known who did.
func (n *Network) askers(from uint32) []*Call {
	if c := n.call(from); c != nil {
		return []*Call{c}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.calls))
}

// refuseName writes down what is not answered, whatever the settings say.
func (n *Network) refuseName(from uint32, name, reason string) {
	for _, c := range n.askers(from) {
		k := Connection{Host: name, Protocol: ProtocolDNS, Via: ViaTransparent}
		c.refuse(k, Verdict{Rule: "network", Reason: reason})
	}
}

// mayResolve reports whether a call that runs may reach the name at any port; tell says to write
// a refusal down.
func (n *Network) mayResolve(name string, from uint32, tell bool) bool {
	asks := n.askers(from)
	for _, c := range asks {
		if v, _ := c.o.Network.Host(name); v != guard.Deny {
			return true
		}
	}
	reason := "the name was looked up, and the settings do not allow it"
	if len(asks) > 1 {
		reason += "; by this call or by another one that ran in the session"
	}
	k := Connection{Host: name, Protocol: ProtocolDNS, Via: ViaTransparent}
	for _, c := range asks {
		if _, rule := c.o.Network.Host(name); tell {
			c.refuse(k, Verdict{Rule: rule, Reason: reason})
		}
	}
	return false
}

func pack(h dnsmessage.Header, questions []dnsmessage.Question, a *dnsmessage.AResource) []byte {
	m := dnsmessage.Message{Header: h, Questions: questions}
	if a != nil {
		head := dnsmessage.ResourceHeader{Name: questions[0].Name, Class: dnsmessage.ClassINET, TTL: nameTTL}
		m.Answers = []dnsmessage.Resource{{Header: head, Body: a}}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil // can't happen: the name was just read
	}
	return answer
}

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/output"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// callEvents describes the data of the events of one call: begin, waiting, output and end.
func callEvents(end any) route.OneOf {
	return route.OneOf{tool.Began{}, tool.Waiting{}, tool.Printed{}, end}
}

const (
	// logBytes is how much output waits for a slow client. When it is full, the program waits.
	logBytes = 256 << 10
	// eventBytes is room for the event of an item, unless most of it must be escaped.
	eventBytes = 80 << 10
	// streamBytes is how much memory a stream of output takes: the log, the items that its reader has taken, and the
	// event that is being sent.
	streamBytes = logBytes + output.ItemBytes + eventBytes
)

// follow answers a call with the result of do. A client that accepts events gets them while the call runs, and the
// result as the last one, named end.
func (s *Server) follow(r *http.Request, req tool.Request, do func(context.Context, tool.Request) any) (any, error) {
	if !route.AcceptsEvents(r) {
		return do(r.Context(), req), nil
	}
	printed := true
	if v := r.URL.Query().Get("output"); v != "" {
		var err error
		if printed, err = strconv.ParseBool(v); err != nil {
			return nil, route.BadRequest(fmt.Sprintf("output=%.20q: give true or false", v))
		}
	}
	return route.Stream(func(w *route.Writer) error {
		// This is the context of the request, not of the stream: when the daemon stops, running calls get time to
		// finish, and streams do not.
		ctx := r.Context()
		log := output.NewLog(logBytes)
		req.Log, req.Emit, req.NoOutput = log, emitter(ctx, log, printed), !printed
		owner, sent := log.Owner(), make(chan error, 1)
		go func() {
			defer owner.Close()
			sent <- sendItems(ctx, w, log, owner, connOf(r))
		}()
		answer := do(ctx, req)
		log.Close()
		if err := <-sent; err != nil {
			return err
		}
		err := w.SendID(eventID(log.ID(), log.Last()), "end", answer)
		if err == nil {
			s.Pipeline.Answered(log.ID())
		}
		return err
	}), nil
}

// emitter writes progress to a log. It takes the memory for output when the first output comes, because most calls
// print little, and many wait for a person.
func emitter(ctx context.Context, log *output.Log, printed bool) func(tool.Progress) {
	tell := tool.Tell(log)
	room := sync.OnceValue(func() error { return budget.Of(ctx).Wait(ctx, streamBytes) })
	return func(p tool.Progress) {
		if p.Stream == "" || printed && room() == nil {
			tell(p)
		}
	}
}

// sendItems sends the items that come into a log, until the log is closed.
func sendItems(ctx context.Context, w *route.Writer, log *output.Log, from *output.Reader, c *conn) error {
	for {
		items, err := from.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		size := 0
		for _, i := range items {
			size += len(i.Text)
			id := eventID(log.ID(), i.Seq)
			if i.Name != "" {
				err = w.Add(id, i.Name, i.Data)
			} else {
				if len(i.Text) > eventBytes/4 {
					w.Buffer(eventBytes)
				}
				c.hold()
				err = errors.Join(w.Add(id, "output", tool.PrintedBytes(i.Stream, i.Offset, i.Text)), c.release())
			}
			if err != nil {
				return err
			}
		}
		// net/http still has the end of much output in its buffer. It goes out with the next output, or soon.
		if bulk := size >= output.GatherBytes; !bulk && !from.More() || bulk && !from.Gather(ctx) {
			if err := w.Flush(); err != nil {
				return err
			}
			from.Gather(ctx)
		}
	}
}

// resume sends the kept events of a call after the one with the id last, or all of them, and then the result. If the
// reader leaves, the call goes on.
func (s *Server) resume(r *http.Request, call, last string) (any, error) {
	account := route.CallerOf(r).Account
	var after uint64
	if last != "" {
		of, seq, err := readEventID(last)
		if err != nil {
			return nil, err
		}
		if call != "" && of != call {
			return nil, route.BadRequest("Last-Event-ID " + last + " is of another call")
		}
		call, after = of, seq
	}
	log, ended, ok := s.Pipeline.Follow(account, call, logBytes)
	if !ok {
		return nil, noCall(call)
	}
	select {
	case <-ended:
	default:
		if err := budget.Of(r.Context()).Take(streamBytes); err != nil {
			return nil, err
		}
	}
	return route.Stream(func(w *route.Writer) error {
		seq := after
		if log != nil {
			if err := sendItems(w.Context, w, log, log.After(after), connOf(r)); err != nil {
				return err
			}
			seq = max(seq, log.Last())
		}
		if err := w.Flush(); err != nil {
			return err
		}
		select {
		case <-ended:
		case <-w.Context.Done():
			return w.Context.Err()
		}
		state, ok := s.Pipeline.Call(account, call)
		if !ok || state.Result == nil {
			return nil // the events of other calls have replaced them
		}
		return w.SendID(eventID(call, seq), "end", state.Result)
	}), nil
}

// eventID names an event of a call for Last-Event-ID.
func eventID(call string, seq uint64) string { return call + "." + strconv.FormatUint(seq, 10) }

func readEventID(id string) (call string, seq uint64, err error) {
	call, n, ok := strings.Cut(id, ".")
	if seq, err = strconv.ParseUint(n, 10, 64); !ok || call == "" || err != nil {
		return "", 0, route.BadRequest(fmt.Sprintf("Last-Event-ID %.100q is no id of an event of a call", id))
	}
	return call, seq, nil
}

func noCall(id string) error {
	return route.Missing("not_found", "no call "+id+" runs or ended lately")
}

package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is why there is no answer.
type Error struct {
	Status int    // of HTTP; 0 where there was none
	Msg    string // without the key
	Again  bool   // asking again may help
	After  time.Duration
}

func (e *Error) Error() string { return e.Msg }

func broken(format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...), Again: true}
}

// brokenOff returns a stream without its end. To the decoders one that is closed in the middle is no error.
func brokenOff(err error) *Error {
	return broken("the answer broke off before its end: %v", cmp.Or(err, io.ErrUnexpectedEOF))
}

// again are the statuses after which the same request may get an answer.
var again = []int{
	http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, 529, // overloaded
}

// final are the kinds of errors within a stream that no other try mends.
var final = []string{
	"invalid_request_error", "authentication_error", "permission_error", "not_found_error", "billing_error",
	"request_too_large",
}

// wireError is how both APIs write an error.
type wireError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// ofStream returns an error within a stream.
func (w wireError) ofStream() *Error {
	e := broken("the model server ended the answer: %s: %s", w.Type, w.Message)
	e.Again = !slices.Contains(final, w.Type)
	return e
}

// ofStatus returns an answer of HTTP that is not 200.
func ofStatus(res *http.Response, body []byte, now time.Time) *Error {
	var said struct {
		Error wireError `json:"error"`
	}
	text := string(body)
	if json.Unmarshal(body, &said) == nil && said.Error.Message != "" {
		text = said.Error.Message
	}
	e := &Error{Status: res.StatusCode, Again: slices.Contains(again, res.StatusCode)}
	e.Msg = fmt.Sprintf("the model server answered %d: %s", res.StatusCode, text)
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		e.Msg = fmt.Sprintf("the model server sends on to another address (%d); name it with --base-url", e.Status)
	}
	if e.Again {
		e.After = retryAfter(res.Header.Get("Retry-After"), now)
	}
	return e
}

func retryAfter(value string, now time.Time) time.Duration {
	if s, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

const maxErrorText = 500

// clip shortens what a server wrote, which may be a whole page.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxErrorText {
		return string(r[:maxErrorText]) + "…"
	}
	return s
}

// ofNetwork is a failure below HTTP, or why the request was given up.
func ofNetwork(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the address, which may hold a password
	}
	return broken("the model server was not reached: %v", err)
}

// hide replaces the key in an error text, also as it stands in JSON and in addresses.
func hide(text, key string) string {
	quoted, _ := json.Marshal(key) // a string always has a JSON form
	for _, form := range []string{key, strings.Trim(string(quoted), `"`), url.QueryEscape(key)} {
		text = strings.ReplaceAll(text, form, "***")
	}
	return text
}

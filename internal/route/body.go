package route

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// MaxBody bounds the body of a request, unless its route reads more.
const MaxBody = 8 << 20

// What a request takes from the budget beside the bytes of its body: these are read once
// more as arguments and once more as what becomes of them, and each value that they hold
// becomes a value of the schema and of the policies.
const (
	heldAgain  = 2   // times the body
	valueBytes = 400 // for each value
)

// readBody reads a body of at most most bytes into memory that was taken from the budget: as much as
// the client says it sends, or twice as much each time that a body of unknown length needs more.
func readBody(r *http.Request, most int64) ([]byte, error) {
	hold := budget.Of(r.Context())
	const step = 64 << 10
	size := r.ContentLength
	if size > most {
		return nil, bodyTooLarge(most)
	}
	if size < 0 {
		size = min(step, most+1) // one more than may be there shows that there is more
	}
	if err := hold.Take(size); err != nil {
		return nil, err
	}
	body := make([]byte, size)
	for n := 0; ; {
		m, err := io.ReadFull(r.Body, body[n:])
		switch n += m; {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && r.ContentLength < 0:
			return body[:n], nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, Error{
				Status: http.StatusRequestTimeout,
				Said:   &tool.Error{Code: "request_timeout", Msg: "the body did not arrive in time"},
			}
		case err != nil:
			return nil, BadRequest("read the body: " + err.Error())
		case r.ContentLength >= 0:
			return body, nil
		case int64(n) > most:
			return nil, bodyTooLarge(most)
		}
		more := min(n, int(most)+1-n)
		if err := hold.Take(int64(n + more)); err != nil { // both are held while one is copied
			return nil, err
		}
		body = append(make([]byte, 0, n+more), body...)[:n+more]
		hold.Give(int64(n))
	}
}

// Body reads the body of a request that is no JSON of ours, of at most [MaxBody] bytes.
func Body(r *http.Request) ([]byte, error) { return readBody(r, MaxBody) }

func bodyTooLarge(most int64) error {
	return Error{
		Status: http.StatusRequestEntityTooLarge,
		Said: &tool.Error{
			Code: "too_large", Msg: fmt.Sprintf("the body is larger than %d bytes", most),
			Hint: "write large texts to a file or a variable and refer to it",
		},
	}
}

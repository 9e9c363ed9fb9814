package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// client follows no redirect: the input goes where the operator said. It uses no
// proxy of the environment for the same reason.
func client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post asks an endpoint. An object or nothing with a 2xx is an answer; everything else is a failure.
func post(ctx context.Context, url string, in Input) (*Output, error) {
	body, err := in.encode()
	if err != nil {
		return nil, fmt.Errorf("encode the input: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client().Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, errors.New("it answered " + resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxStdout+1))
	if err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	if len(text) > maxStdout {
		return nil, fmt.Errorf("its output is larger than %d bytes", maxStdout)
	}
	return parseBody(text)
}

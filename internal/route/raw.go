package route

import (
	"context"
	"net/http"
)

// Raw is the answer of a route that speaks another protocol over HTTP. If it is Endless, it has no grace when the
// daemon stops, as a [Stream] has none.
type Raw struct {
	Serve   http.Handler
	Endless bool
}

// ServeRaw lets raw answer.
func ServeRaw(w http.ResponseWriter, r *http.Request, raw Raw) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if stopping, ok := ctx.Value(stopKey{}).(context.Context); ok && raw.Endless {
		defer context.AfterFunc(stopping, cancel)()
	}
	raw.Serve.ServeHTTP(w, r.WithContext(ctx))
}

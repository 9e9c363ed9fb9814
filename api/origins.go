package api

import (
	"net/http"

	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/tool"
)

// getOrigins says who wrote what the model of a session was shown.
func (s *Server) getOrigins(r *http.Request) (any, error) {
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	return s.origins(r, sess)
}

// resetOrigins ends the questions that follow from what was shown: a person
// answers for it. What is recorded first cannot be missing later.
func (s *Server) resetOrigins(r *http.Request) (any, error) {
	sess, err := s.session(r)
	if err != nil {
		return nil, err
	}
	err = s.Record.Append(r.Context(), audit.Event{
		Name: "origins_reset", Account: sess.Account, Session: sess.ID, Message: operatorName(r) + " holds what the session has read to be harmless",
	})
	if err != nil {
		return nil, err
	}
	if err := s.Vars.ResetOrigins(r.Context(), sess.ID); err != nil {
		return nil, err
	}
	return s.origins(r, sess)
}

func (s *Server) origins(r *http.Request, sess tool.Session) (any, error) {
	shown, err := s.Vars.Released(r.Context(), sess.ID)
	if shown == nil {
		shown = []tool.Origin{}
	}
	return shownOrigins{shown}, err
}

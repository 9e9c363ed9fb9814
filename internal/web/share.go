package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

type shareRequest struct {
	For      string `json:"for,omitempty"`      // name of the person who gets the link
	Hours    int    `json:"hours,omitempty"`    // hours until the link ends: 1 to 720, default 24
	Password string `json:"password,omitempty"` // viewers must enter it; "" asks for none
}

// Shared is the answer to the creation of a link. Only this answer holds its address.
type Shared struct {
	ID   string    `json:"id"`
	URL  string    `json:"url"`
	Ends time.Time `json:"ends_at"`
}

// shareRoutes returns the routes by which operators create and revoke links for viewers.
func (s *site) shareRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /sessions/{id}/shares", Role: tool.RoleOperator, Handle: s.share,
			Spec: route.Spec{
				ID: "shareSession", Summary: "A link by which others look at a session on the page, and can do nothing",
				In: shareRequest{}, Out: Shared{}, Created: true, Errors: []int{409},
			},
		},
		{
			Pattern: "GET /shares", Role: tool.RoleOperator, Handle: s.listShares,
			Spec: route.Spec{
				ID: "listShares", Summary: "Links for viewers, the newest first, and who looked when",
				Query: route.PageQuery, Out: []Share{}, Paged: true,
			},
		},
		{
			Pattern: "DELETE /shares/{id}", Role: tool.RoleOperator, Handle: s.revokeShare,
			Spec: route.Spec{
				ID: "revokeShare", Summary: "End a link for viewers, and what is open on it", Out: route.Deleted{},
			},
		},
	}
}

// on returns an error if the page is off.
func (s *site) on() error {
	if s.listen != nil {
		return nil
	}
	return route.Error{Status: http.StatusConflict, Said: &tool.Error{
		Code: "web_off", Msg: "the page is off",
		Hint: "set web.listen, such as 127.0.0.1:3456, and start the daemon again",
	}}
}

func (s *site) share(r *http.Request) (any, error) {
	var in shareRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	of, err := s.host.Session(r)
	if err != nil {
		return nil, err
	}
	hours := cmp.Or(in.Hours, shareHours)
	switch n := len(in.Password); {
	case s.on() != nil:
		return nil, s.on()
	case len(in.For) > maxName:
		return nil, route.BadRequest(fmt.Sprintf("for: a name has at most %d bytes", maxName))
	case hours < 1 || hours > maxHours:
		return nil, route.BadRequest(fmt.Sprintf("hours is %d: 1 to %d", in.Hours, maxHours))
	case n > 0 && (n < minPassword || n > maxPassword):
		return nil, route.BadRequest(fmt.Sprintf("password: %d to %d bytes", minPassword, maxPassword))
	}
	me, now := route.CallerOf(r), time.Now().UTC()
	x := Share{
		Session: of.ID, For: in.For, By: me.Operator(), Made: now, Ends: now.Add(time.Duration(hours) * time.Hour),
		maker: person{UID: me.UID, GID: me.GID, Groups: me.Groups}, password: hashPassword(in.Password),
	}
	token, err := s.shares.make(r.Context(), &x)
	if errors.Is(err, errFull) {
		return nil, &tool.Error{
			Code: "too_many_requests", Msg: fmt.Sprintf("%d links for viewers work", maxShares),
			Hint: "sandboxd share list shows them, sandboxd share revoke ends one",
		}
	}
	if err == nil {
		err = s.noteShare(r.Context(), "web_share", x, "a link to look at the session was made by "+x.By,
			map[string]string{"for": x.For, "ends": x.Ends.Format(time.RFC3339)})
	}
	if err != nil { // nobody got the token
		return nil, err
	}
	return route.Created{Data: Shared{ID: x.ID, URL: s.origin() + viewPath(token), Ends: x.Ends}}, nil
}

// noteShare records what was done with a link.
func (s *site) noteShare(ctx context.Context, name string, x Share, message string, detail map[string]string) error {
	detail["share"] = x.ID
	return s.host.Record(ctx, tool.Note{Name: name, Session: x.Session, Message: message, Detail: detail})
}

func (s *site) listShares(r *http.Request) (any, error) {
	page, err := route.Paging(r)
	if err != nil {
		return nil, err
	}
	all, total, err := s.shares.list(r.Context(), page.Limit, page.Offset)
	if err != nil {
		return nil, err
	}
	return page.List(all, len(all), total), nil
}

// revokeShare ends a link. It does so even if the record fails, because it takes rights away.
func (s *site) revokeShare(r *http.Request) (any, error) {
	id := r.PathValue("id")
	found, err := s.shares.end(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, route.Missing("share_not_found", "there is no link for viewers with the id "+id)
	}
	err = s.host.Record(r.Context(), tool.Note{
		Name: "web_share_revoked", Message: "a link to a session was revoked by " + route.CallerOf(r).Operator(),
		Detail: map[string]string{"share": id},
	})
	return route.Deleted{ID: id, Deleted: true}, err
}

// sharesPage shows the links and their viewers.
func (s *site) sharesPage(w http.ResponseWriter, r *http.Request) {
	got := page[Share]{}
	at, err := s.get(r, "/shares?limit="+strconv.Itoa(pageSize)+"&offset="+offset(r), &got.Rows)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if at.HasMore {
		got.Next = at.Offset + len(got.Rows)
	}
	s.show(w, r, http.StatusOK, "shares", view{Title: "Links for viewers", Section: "shares", Data: got})
}

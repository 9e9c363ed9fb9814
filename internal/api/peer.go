package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/user"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// peer is the process at the other end of a connection, as the kernel described it when it connected.
type peer struct {
	uid, gid, pid int
	groups        []int // supplementary
	known         bool
	// withAccount sets these fields for each request.
	account string // the account of the uid
	refused bool   // the uid may not use the agent socket
}

type (
	peerKey  struct{}
	connKey  struct{}
	letInKey struct{} // key of a route.Caller, where no socket says who calls
)

// credentials returns who is at the other end of a connection. It asks ask, or the kernel if ask is nil.
func credentials(c net.Conn, ask func(fd int) (idspace.Peer, error)) peer {
	p := peer{}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return p
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) {
		own := ask == nil
		if own {
			ask = idspace.PeerOf
		}
		// Another process answers with the numbers that users have in its own namespace.
		if found, err := ask(int(fd)); err == nil && !(own && nameless(found.UID)) {
			p = peer{uid: found.UID, gid: found.GID, pid: found.PID, groups: found.Groups, known: true}
		}
	})
	return p
}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	own := c.(*conn) // our listener makes no other
	return context.WithValue(context.WithValue(ctx, peerKey{}, own.peer), connKey{}, own)
}

// connOf returns the connection of a request. It is nil in tests without one.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// nameless reports whether a uid stands for all users that have no number in the user namespace of this process.
// They must not become one account.
func nameless(uid int) bool {
	overflow, ids := userNamespace()
	return uid == overflow && !mapsAll(ids)
}

// userNamespace returns that uid, and the ids that the namespace has; "" if they are unknown.
var userNamespace = sync.OnceValues(func() (overflow int, ids string) {
	number, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err == nil {
		overflow, err = strconv.Atoi(strings.TrimSpace(string(number)))
	}
	if err != nil {
		return 65534, ""
	}
	mapped, _ := os.ReadFile("/proc/self/uid_map")
	return overflow, string(mapped)
})

// mapsAll reports whether a uid_map has a number for every uid.
func mapsAll(ids string) bool {
	fields := strings.Fields(ids)
	return len(fields) == 3 && fields[0] == "0" && fields[2] == strconv.FormatUint(math.MaxUint32, 10)
}

// withAccount finds the account of the peer once for each request, because a reload may change it while the
// connection stays.
func (s *Server) withAccount(r *http.Request) (*http.Request, peer) {
	p, _ := r.Context().Value(peerKey{}).(peer)
	account, ok := s.Account(p.uid)
	p.account, p.refused = account, !ok
	return r.WithContext(context.WithValue(r.Context(), peerKey{}, p)), p
}

// wrap turns a route into a handler for the sockets of one role.
func (s *Server) wrap(rt route.Route, role tool.Role) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch v := recover(); v {
			case nil:
			case http.ErrAbortHandler:
				panic(v)
			default:
				s.Log.Error("panic in a handler", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
				writeError(w, errors.New("the daemon failed; its log says where"))
			}
		}()
		me, err := s.identify(r, role)
		if err == nil {
			me, err = s.actingFor(r, rt, me)
		}
		if err == nil && rt.Role == tool.RoleOperator && role != tool.RoleOperator {
			err = route.Forbidden("operator_only", r.Method+" "+r.URL.Path+" is for operators",
				"use the operator socket")
		}
		if err == nil {
			err = route.CheckQuery(r, rt.Spec.Query)
		}
		if err == nil && rt.Keeps && s.Admit != nil {
			err = s.Admit(me, bodyBytes(r))
		}
		if err != nil {
			writeError(w, err)
			return
		}
		out, err := rt.Handle(r.WithContext(route.WithCaller(r.Context(), me)))
		if err != nil {
			writeError(w, err)
			return
		}
		if !rt.Results || role != tool.RoleOperator {
			s.write(w, r, out)
			return
		}
		masked := &route.Masked{ResponseWriter: w, Redact: s.Redact, Pieces: s.Pieces}
		s.write(masked, r, out)
		masked.End()
	})
}

// bodyBytes bounds the body of a request.
func bodyBytes(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return route.MaxBody
	}
	return min(r.ContentLength, route.MaxBody)
}

// identify returns who calls, or why the caller is refused. withAccount has prepared the request.
func (s *Server) identify(r *http.Request, role tool.Role) (route.Caller, error) {
	if by, ok := r.Context().Value(letInKey{}).(route.Caller); ok {
		return forAccount(by, r), nil
	}
	p, _ := r.Context().Value(peerKey{}).(peer)
	if !p.known {
		return route.Caller{}, route.Forbidden("peer_unknown", "the kernel does not say who is calling",
			"connect to the Unix socket directly")
	}
	switch as, ok := s.Hooks.Descends(p.pid); {
	case !ok:
	case as == nil:
		return route.Caller{}, route.Forbidden("called_by_hook",
			"a hook must not call the daemon that waits for it", "")
	case role == tool.RoleOperator:
		return route.Caller{}, route.Forbidden("not_an_operator", "a sub-agent is no operator", "use the agent socket")
	default:
		me := route.Caller{
			Account: as.Account, Role: role, UID: as.UID, GID: as.GID, Groups: as.Groups, Name: as.Name, Home: as.Home,
			Only: as.Session,
		}
		return me, s.stays(r, me)
	}
	me := route.Caller{Account: p.account, Role: role, UID: p.uid, GID: p.gid, Groups: p.groups}
	me.Name, me.Home = nameAndHome(p.uid)
	if role != tool.RoleOperator {
		if p.refused {
			return route.Caller{}, route.Forbidden("account_refused", fmt.Sprintf("uid %d has no account here", p.uid),
				"an operator names it in accounts, or sets accounts.others: own")
		}
		return me, nil
	}
	if p.uid != 0 && p.uid != os.Geteuid() && !slices.Contains(s.Operators, p.uid) && !s.operatorGroup(p) {
		return route.Caller{}, route.Forbidden("not_an_operator", fmt.Sprintf("uid %d is not an operator", p.uid),
			"list it in operators.uids, or a group of it in operators.gids")
	}
	return forAccount(me, r), nil
}

// forAccount returns an operator who acts for the account that the request names.
func forAccount(me route.Caller, r *http.Request) route.Caller {
	me.Role, me.Account, me.Any = tool.RoleOperator, tool.DefaultAccount, true
	if a := r.Header.Get("X-Account-Id"); a != "" {
		me.Account, me.Any = a, false
	}
	return me
}

// actingFor returns the caller with the account that the request is about. An operator who names no account works on
// the sessions and calls of all accounts.
func (s *Server) actingFor(r *http.Request, rt route.Route, me route.Caller) (route.Caller, error) {
	_, path, _ := strings.Cut(rt.Pattern, " ")
	switch id := r.PathValue("id"); {
	case !me.Any:
	case strings.HasPrefix(path, "/sessions/{id}"):
		return s.ownerOf(r.Context(), me, id)
	case strings.HasPrefix(path, "/calls/{id}"):
		if owner, ok := s.Pipeline.Owner(id); ok {
			me.Account = owner
		}
	}
	return me, nil
}

// ownerOf returns the caller with the account of a session, if the caller is an operator, who may act for it.
func (s *Server) ownerOf(ctx context.Context, me route.Caller, session string) (route.Caller, error) {
	if !me.Any {
		return me, nil
	}
	owner, err := s.Sessions.Owner(ctx, session)
	if owner != "" {
		me.Account = owner
	}
	return me, err
}

// operatorGroup reports whether the caller is in a group of operators: the group it runs with, or a group that its
// user has in the database of groups.
func (s *Server) operatorGroup(p peer) bool {
	if len(s.OperatorGroups) == 0 {
		return false
	}
	if slices.Contains(s.OperatorGroups, p.gid) {
		return true
	}
	u, err := user.LookupId(strconv.Itoa(p.uid))
	if err != nil {
		return false
	}
	groups, err := u.GroupIds()
	return err == nil && slices.ContainsFunc(groups, func(g string) bool {
		gid, err := strconv.Atoi(g)
		return err == nil && slices.Contains(s.OperatorGroups, gid)
	})
}

// HomeOf returns the home directory of a user: $HOME for the daemon's own uid, else the directory in the user
// database.
func HomeOf(uid int) string {
	_, home := nameAndHome(uid)
	return home
}

// nameAndHome returns the name and the home directory of a uid. For a uid that the user database does not know they are
// "" and "/". For the uid of the daemon, $HOME wins over the user database.
func nameAndHome(uid int) (name, home string) {
	home = "/"
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name, home = u.Username, u.HomeDir
	}
	if h := os.Getenv("HOME"); h != "" && uid == os.Getuid() {
		home = h
	}
	return name, home
}

// notFound answers a request that no route matches: with 405 and the methods of the path, or with 404.
func notFound(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			probe := r.Clone(r.Context())
			probe.Method = m
			if _, pattern := mux.Handler(probe); pattern != "/" {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 {
			writeError(w, route.Missing("not_found", "no route "+r.URL.Path))
			return
		}
		w.Header()["Allow"] = allowed
		writeError(w, route.Error{Status: http.StatusMethodNotAllowed, Said: &tool.Error{
			Code: "method_not_allowed", Msg: r.Method + " is not allowed on " + r.URL.Path,
			Hint: fmt.Sprintf("allowed: %v", allowed),
		}})
	}
}

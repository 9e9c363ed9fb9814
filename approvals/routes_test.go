package approvals

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestTheRoutesOfQuestionsAndGrants(t *testing.T) { synctest.Test(t, theRoutes) }

func theRoutes(t *testing.T) {
	q := openQueue(t, Options{Approver: true})
	routes := q.Part(part.Host{}).Routes
	do := func(line, body, want string) string {
		t.Helper()
		got := routetest.Call(t, routes, tool.RoleOperator, line, body)
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		return got
	}
	do("GET /approvals", "", "0 []")
	do("GET /grants", "", "[]")
	done := start(t.Context(), q.Execution, bashCall("git push"))
	id := onlyPending(t, q).ID
	do("GET /approvals?status=pending&session_id=s1", "", `1 [{"id":"`+id)
	do("GET /approvals?status=sometimes", "", "status")
	do("GET /approvals?limit=0", "", "validation_error: ")
	do("GET /approvals/"+id, "", `"tool_name":"Bash"`)
	do("GET /approvals/none", "", "not_found: ")
	do("POST /approvals/"+id, `{"approve": true}`, "validation_error: ")
	do("POST /approvals/"+id, `{"approved": true, "remember": "session", "reason": "go on"}`, `"decided_by":"uid:7"`)
	if a := <-done; a.err != nil || !a.Approved {
		t.Errorf("%+v", a)
	}
	grants, err := q.Grants(t.Context())
	if err != nil || len(grants) != 1 {
		t.Fatalf("%+v, %v", grants, err)
	}
	do("GET /grants", "", grants[0].ID)
	do("DELETE /grants/"+grants[0].ID, "", `"deleted":true`)
	do("DELETE /grants/"+grants[0].ID, "", "not_found: ")
}

func TestTheStreamBeginsWithTheQuestionsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openQueue(t, Options{Approver: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := bashCall("git push")
		c.Session.Account, c.Request.Account = "a", "a"
		done := start(ctx, q.Execution, c)
		broker := &events.Broker{}
		go func() {
			synctest.Wait()
			broker.Publish(events.Event{Type: events.CallBegin, Account: "a"})
			broker.Publish(events.Event{Type: events.GrantRevoked, Account: "a", Approval: "g1"})
		}()
		routes := q.Part(part.Host{Events: broker}).Routes
		got := routetest.Stream(ctx, routes, tool.RoleOperator, "GET /approvals/stream?session_id=s1")
		if strings.Count(got, "data: ") != 1 || !strings.Contains(got, `"tool":"Bash"`) {
			t.Errorf("of the session: %s", got)
		}
		<-done
	})
}

func TestAQuestionEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openQueue(t, Options{Approver: true})
		done := start(t.Context(), q.Execution, bashCall("git push"))
		if err := q.Part(part.Host{}).Forget(t.Context(), tool.Session{ID: "s1"}); err != nil {
			t.Fatal(err)
		}
		if a := <-done; a.Approved || !strings.Contains(a.Reason, "deleted") {
			t.Errorf("%+v, want no approval: the session was deleted", a)
		}
	})
}

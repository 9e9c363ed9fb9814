package team_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/team"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, team.Definition().Schema)
	must(err)
	defer db.Close()
	s := team.New(db)
	top := tool.Session{ID: "s1", Account: "a"}
	lead := team.PlaceOf(top)
	ann := team.PlaceOf(tool.Session{ID: "s2", Account: "a", Parent: "s1", Agent: "ann", Above: []tool.Session{top}})

	task, err := s.Create(ctx, lead, team.Task{Subject: "write the tests", Status: team.Pending}, provenance.ByModel)
	must(err)
	nobody, owner, status := "", ann.Agent, string(team.InProgress)
	claim := team.Change{Owner: &owner, Status: &status, Expect: &team.Expect{Owner: &nobody}}
	_, task, err = s.Update(ctx, ann, task.ID, claim, provenance.ByModel)
	fmt.Println(task.ID, task.Status, task.Owner, err)
	_, _, err = s.Update(ctx, lead, task.ID, claim, provenance.ByModel) // somebody else is late
	fmt.Println(err)

	_, err = s.CreateTeam(ctx, lead, "testers", "", []string{"ann"})
	must(err)
	_, err = s.Send(ctx, lead, team.Outgoing{To: "ann", Message: "how far are you?"}, provenance.ByModel)
	must(err)
	mail, _, err := s.Take(ctx, ann)
	must(err)
	for _, m := range mail {
		fmt.Println(m.From+":", m.Content)
	}
	// Output:
	// task_1 inProgress ann <nil>
	// task_1 is not as expected: its owner is "ann", not ""
	// self: how far are you?
}

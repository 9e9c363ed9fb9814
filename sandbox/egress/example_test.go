package egress_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/egress"
)

func ExampleLedger_Add() {
	var l egress.Ledger
	l.Add(egress.Row{Host: "a.example", Port: 443, Verdict: egress.Allowed, Count: 1, BytesIn: 10})
	l.Add(egress.Row{Host: "a.example", Port: 443, Verdict: egress.Allowed, Count: 1, BytesIn: 5})
	fmt.Println(len(l.Connections), l.Connections[0].Count, l.Connections[0].BytesIn)
	// Output: 1 2 15
}

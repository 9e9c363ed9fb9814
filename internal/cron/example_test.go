package cron_test

import (
	"fmt"
	"log"
	"time"

	"github.com/sandboxd/sandboxd/internal/cron"
)

func Example() {
	line, err := cron.ParseLine("*/5 9-17 * * mon-fri")
	if err != nil {
		log.Fatal(err)
	}
	friday := time.Date(2026, 11, 20, 17, 55, 0, 0, time.UTC)
	fmt.Println(line.After(friday).Format(time.RFC1123))
	_, err = cron.ParseLine("* * * * * *")
	fmt.Println(err)
	// Output:
	// Mon, 23 Nov 2026 09:00:00 UTC
	// invalid schedule: "* * * * * *" has 6 fields, and a line has five
}

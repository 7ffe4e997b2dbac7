package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
)

// runAlloy has Alloy's commands "run FILE" and "fmt FILE" (reference/cli of its documentation). Running, it answers
//
//	/-/ready          200 once a configuration is loaded
//	POST /-/reload    200, or 400 with what is wrong; the old configuration stays then
//	/config           the loaded configuration (Alloy has no such thing)
//
// and ends where the first configuration can't be loaded.
func runAlloy(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("run or fmt?")
	}
	flags := flag.NewFlagSet("alloy "+arguments[0], flag.ExitOnError)
	listen := flags.String("server.http.listen-addr", "127.0.0.1:12345", "address to listen on")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	c := &configuration{path: flags.Arg(0)}
	if err := c.load(); err != nil || arguments[0] == "fmt" {
		return err
	}
	log.Printf("a stand-in for Alloy listens on %s", *listen)
	return serve(ctx, *listen, alloyHandler(c))
}

// configuration is a file that is loaded where it is good.
type configuration struct {
	path string

	mutex sync.Mutex
	text  string
}

func (c *configuration) load() error {
	text, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	if line, column, wrong := check(string(text)); wrong != "" {
		return fmt.Errorf("%s:%d:%d: %s", c.path, line, column, wrong)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.text = string(text)
	return nil
}

func (c *configuration) loaded() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.text
}

// check is all that the stand-in knows of the syntax: braces are balanced.
func check(text string) (line, column int, wrong string) {
	depth := 0
	for number, content := range strings.Split(text, "\n") {
		line = number + 1
		for at, r := range content {
			switch r {
			case '{':
				depth++
			case '}':
				depth--
			}
			if depth < 0 {
				return line, at + 1, "expected block or attribute, got }"
			}
		}
	}
	if depth > 0 {
		return line, 1, "expected }, got EOF"
	}
	return 0, 0, ""
}

func alloyHandler(c *configuration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready.") })
	mux.HandleFunc("POST /-/reload", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.load(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "config reloaded")
	})
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.loaded()) })
	return mux
}

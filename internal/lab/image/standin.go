package image

import (
	"context"
	"embed"
	"fmt"
	"path/filepath"
)

//go:embed standin/main.go standin/agent.go standin/alloy.go
var standinSources embed.FS

// standinFiles are the files of the command standin.
var standinFiles = []string{"main.go", "agent.go", "alloy.go"}

func standinSource(name string) []byte {
	content, err := standinSources.ReadFile("standin/" + name)
	if err != nil {
		panic(err) // embedded
	}
	return content
}

// addStandin compiles our stand-in for a software into the root file system.
func addStandin(ctx context.Context, root, software string) error {
	files := map[string][]byte{}
	for _, name := range standinFiles {
		files[name] = standinSource(name)
	}
	return compile(ctx, files, filepath.Join(root, "usr/local/bin", software))
}

// agent is a release of a small agent; see the command standin for what the behaviours are.
func agent(version, behaviour string) Recipe {
	return Recipe{
		Name: "agent", Version: version, Description: "An agent whose heartbeat is " + behaviour,
		Standin: "agent", StopSignal: "TERM",
		Service: fmt.Sprintf("#!/bin/sh\nexec /usr/local/bin/agent -version %s -behaviour %s\n", version, behaviour),
	}
}

// alloyStandin isn't Grafana Alloy, which isn't in Debian, but answers as that does to being probed and reloaded. It begins
// with an empty configuration.
func alloyStandin(version, listen string) Recipe {
	return Recipe{
		Name: "alloy-standin", Version: version, Description: "Stand-in for Grafana Alloy that listens on " + listen,
		Standin: "alloy", StopSignal: "TERM",
		Files:   map[string]string{"/etc/alloy/config.alloy": ""},
		Service: fmt.Sprintf("#!/bin/sh\nexec /usr/local/bin/alloy run --server.http.listen-addr=%s /etc/alloy/config.alloy\n", listen),
	}
}

// Command terraform-provider-homelabops serves the provider homelabops to a Terraform CLI.
package main

import (
	"flag"
	"log"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run as a server of its own, for a debugger")
	flag.Parse()
	if err := provider.Serve(provider.Options{Version: version}, *debug); err != nil {
		log.Fatal(err)
	}
}

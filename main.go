// Command terraform-provider-homelabops serves the provider homelabops to a Terraform CLI.
package main

import (
	"context"
	"flag"
	"log"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run as a server of its own, for a debugger")
	flag.Parse()
	served, err := provider.New(provider.Options{Version: version})
	if err != nil {
		log.Fatal(err)
	}
	err = providerserver.Serve(context.Background(), func() frameworkprovider.Provider { return served }, providerserver.ServeOpts{
		Address: "registry.terraform.io/homelabops/homelabops",
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}

package provider

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

// address is the provider's in a registry.
const address = "registry.terraform.io/homelabops/homelabops"

// farewell is for how long the provider stays when the CLI ends it in the middle of a change, as at a second Ctrl-C. The CLI
// then writes its state, for which it empties the file, and doesn't wait for that: it ends with its last provider. One that
// goes at once leaves an empty state file behind. Go-plugin kills after 2 s.
const farewell = 1500 * time.Millisecond

// Serve serves the provider to the CLI that started this process, or to a debugger, and returns when it is no longer
// needed. A change that is cut off goes on, and back, for as long as the farewell.
func Serve(options Options, debug bool) error {
	served, err := New(options)
	if err != nil {
		return fmt.Errorf("serve the provider: %w", err)
	}
	server := &leaving{ProviderServer: providerserver.NewProtocol6(served)()}
	var how []tf6server.ServeOpt
	if debug {
		how = append(how, tf6server.WithManagedDebug())
	}
	if err := tf6server.Serve(address, func() tfprotov6.ProviderServer { return server }, how...); err != nil {
		return fmt.Errorf("serve the provider: %w", err)
	}
	time.Sleep(server.farewell())
	return nil
}

// leaving is a provider that knows whether the CLI may still be writing its state when it says goodbye.
type leaving struct {
	tfprotov6.ProviderServer
	changes atomic.Int64 // that are being made, or were cancelled
}

// ApplyResourceChange makes a change.
func (l *leaving) ApplyResourceChange(ctx context.Context, request *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	l.changes.Add(1)
	response, err := l.ProviderServer.ApplyResourceChange(ctx, request)
	if ctx.Err() == nil {
		l.changes.Add(-1)
	}
	return response, err
}

// farewell is for how long to stay after the CLI has ended the connection.
func (l *leaving) farewell() time.Duration {
	if l.changes.Load() == 0 {
		return 0
	}
	return farewell
}

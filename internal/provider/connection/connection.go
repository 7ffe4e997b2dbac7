package connection

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// Connection is a configured provider. Its zero value is that of a provider whose configuration holds values that are not
// known yet, as in a plan that also creates the server: plans go on without a look at the server.
type Connection struct {
	Client  *incus.Client
	Engine  *rollout.Engine
	Project string
	Remotes map[string]rollout.ImageRemote
	// ManagerGroup is the cluster group whose one member is the manager.
	ManagerGroup string
	// Claims are the nodes that per-node Apps of this process take.
	Claims *Claims
}

// ProjectOr is the project that the provider works in, and that of an object's id ("<project>/<name>") while that is not
// known.
func (c *Connection) ProjectOr(id string) string {
	if c.Known() {
		return c.Project
	}
	project, _, _ := strings.Cut(id, "/")
	return project
}

// CheckProject is the error of an object that was made in another project than the provider works in, where its name is
// another's or nobody's. noun is what it is, id its "<project>/<name>".
func (c *Connection) CheckProject(noun, id string) diag.Diagnostics {
	project, name, ok := strings.Cut(id, "/")
	if !ok || !c.Known() || project == c.Project {
		return nil
	}
	return diag.Diagnostics{diag.NewErrorDiagnostic(noun+" is in another project", fmt.Sprintf("%s %q was made in the project %q, but the provider works in %q. "+
		"Set project of the provider back, or use a second provider configuration for it. To move it, destroy it under the old project first.", noun, name, project, c.Project))}
}

// Known tells whether there is a server to ask.
func (c *Connection) Known() bool { return c != nil && c.Client != nil }

// Of takes the connection from what the framework hands to an object. It is nil before the provider is configured.
func Of(providerData any) (*Connection, diag.Diagnostics) {
	if providerData == nil {
		return nil, nil
	}
	c, ok := providerData.(*Connection)
	if !ok {
		return nil, diag.Diagnostics{diag.NewErrorDiagnostic("Provider is broken", fmt.Sprintf("Its objects got %T instead of a connection. Please report this.", providerData))}
	}
	return c, nil
}

// NotKnown is the error of what can't go on without a server.
func NotKnown(attempted string) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Provider configuration is not known yet",
		fmt.Sprintf("Can't %s: the provider's configuration holds values that are known only after apply. Create what they come from first, for example with -target.", attempted))
}

// Mode tells whether the server is one of a cluster.
func (c *Connection) Mode(ctx context.Context) (fleet.Mode, error) {
	server, err := c.Client.GetServer(ctx)
	if err != nil {
		return "", err
	}
	return fleet.ModeOf(server), nil
}

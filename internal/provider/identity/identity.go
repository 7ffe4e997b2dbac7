// Package identity is by what a resource is imported: the project and the name, as text or as a resource's identity.
package identity

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

type model struct {
	Project types.String `tfsdk:"project"`
	Name    types.String `tfsdk:"name"`
}

// Schema is the schema of an identity; noun is what it identifies, as "App".
func Schema(noun string) identityschema.Schema {
	return identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"project": identityschema.StringAttribute{OptionalForImport: true, Description: fmt.Sprintf("Project of the %s. Default: that of the provider.", noun)},
		"name":    identityschema.StringAttribute{RequiredForImport: true, Description: fmt.Sprintf("Name of the %s.", noun)},
	}}
}

// Set sets an identity. Terraform CLIs before 1.12 have no place for one.
func Set(ctx context.Context, to *tfsdk.ResourceIdentity, project string, name types.String) diag.Diagnostics {
	if to == nil {
		return nil
	}
	return to.Set(ctx, model{Project: types.StringValue(project), Name: name})
}

// Imported returns the name that an import asks for, by "[project/]name" or by identity. The project must be the
// provider's own.
func Imported(ctx context.Context, noun string, req resource.ImportStateRequest, project string) (name string, diags diag.Diagnostics) {
	in, name := project, req.ID
	if before, after, ok := strings.Cut(req.ID, "/"); ok {
		in, name = before, after
	}
	if req.ID == "" && req.Identity != nil {
		var identity model
		if diags.Append(req.Identity.Get(ctx, &identity)...); diags.HasError() {
			return "", diags
		}
		name = identity.Name.ValueString()
		if !identity.Project.IsNull() {
			in = identity.Project.ValueString()
		}
	}
	if err := app.CheckName(name); err != nil {
		diags.AddError("Invalid import identifier", fmt.Sprintf("%q: %s. The identifier of an %s is \"name\" or \"project/name\".", req.ID, err, noun))
	} else if in != project {
		diags.AddError(fmt.Sprintf("%s is in another project", noun), fmt.Sprintf("%s %q is to be imported from the project %q, but the provider works in %q: use a provider configuration for that project.", noun, name, in, project))
	}
	return name, diags
}

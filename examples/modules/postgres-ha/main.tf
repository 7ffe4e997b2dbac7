# Where Patroni keeps who leads.
resource "homelabops_app" "dcs" {
  name          = "${var.name}-dcs"
  type          = "etcd"
  image         = var.images.etcd
  version       = var.versions.etcd
  replicas      = var.replicas.etcd
  network       = var.network
  cluster_group = var.cluster_group
  rollout       = var.rollout

  params = { auto_compaction = "1h" }
}

# One writer and its replicas. Which is which, Patroni alone decides.
resource "homelabops_app" "db" {
  name          = "${var.name}-db"
  type          = "postgres"
  image         = var.images.postgres
  version       = var.versions.postgres
  replicas      = var.replicas.postgres
  network       = var.network
  cluster_group = var.cluster_group
  rollout       = var.rollout

  upstreams = { dcs = { app = homelabops_app.dcs.id } }
  params    = { postgresql = var.postgresql }

  volumes = {
    data = {
      path = "/var/lib/postgresql/data"
      size = var.volume_size
      pool = var.volume_pool
      # On a cluster, each member may have its volume on its own node.
      local        = true
      local_reason = "A member that is made anew fills its volume from its peers."
    }
  }

  secrets_wo         = var.passwords
  secrets_wo_version = var.passwords_version
}

# One port leads to the writer and one to the readers, whoever they are: the proxies ask Patroni.
resource "homelabops_app" "proxy" {
  name          = "${var.name}-proxy"
  type          = "haproxy"
  image         = var.images.haproxy
  version       = var.versions.haproxy
  replicas      = var.replicas.haproxy
  network       = var.network
  cluster_group = var.cluster_group
  rollout       = var.rollout

  upstreams = { db = { app = homelabops_app.db.id } }

  params = {
    frontends = [
      { name = "writer", port = var.ports.writer, mode = "tcp", upstream = "db", upstream_port = 5432, check = { type = "patroni", role = "primary" } },
      { name = "readers", port = var.ports.readers, mode = "tcp", upstream = "db", upstream_port = 5432, check = { type = "patroni", role = "replica" }, balance = "leastconn" },
    ]
  }

  endpoint = var.endpoint == null ? null : {
    listen_address = var.endpoint.listen_address
    ports          = [{ listen = var.ports.writer }, { listen = var.ports.readers }]
    vrrp           = var.endpoint.vrrp
  }
}

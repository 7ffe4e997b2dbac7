variable "name" {
  description = "Begins the names of the three Apps: <name>-dcs, <name>-db and <name>-proxy."
  type        = string
  default     = "pg"
}

variable "images" {
  description = "Images of the three Apps. Change one at a time; the plan says what each change is."
  type = object({
    etcd     = string
    postgres = string
    haproxy  = string
  })
}

variable "versions" {
  description = "Versions of the software in the images, where their names don't say them. Databases move between known versions only."
  type = object({
    etcd     = optional(string)
    postgres = optional(string)
    haproxy  = optional(string)
  })
  default = {}
}

variable "replicas" {
  description = "Members of the three Apps. etcd and PostgreSQL decide by majority: 3 bear the loss of one."
  type = object({
    etcd     = optional(number, 3)
    postgres = optional(number, 3)
    haproxy  = optional(number, 2)
  })
  default = {}
}

variable "passwords" {
  description = "Passwords of PostgreSQL's superuser and of its replication, and of Patroni's REST API."
  type = object({
    superuser   = string
    replication = string
    restapi     = string
  })
  ephemeral = true # in no state and in no plan
}

variable "passwords_version" {
  description = "Another number rolls changed passwords out."
  type        = number
  default     = 1
}

variable "postgresql" {
  description = "Settings of PostgreSQL, as in postgresql.conf."
  type        = map(string)
  default     = {}
}

variable "volume_size" {
  description = "Size of each PostgreSQL member's volume."
  type        = string
  default     = "20GiB"
}

variable "volume_pool" {
  description = "Storage pool of the volumes. Default: that of the root disk."
  type        = string
  default     = null
}

variable "endpoint" {
  description = "Stable address of the proxies, if they are to have one: on a managed bridge its listen_address alone, on other networks with vrrp."
  type = object({
    listen_address = string
    vrrp           = optional(object({ router_id = number, prefix_length = number }))
  })
  default = null
}

variable "ports" {
  description = "Ports of the proxies that lead to the writer and to the readers."
  type        = object({ writer = optional(number, 5432), readers = optional(number, 5433) })
  default     = {}
}

variable "network" {
  description = "Network of all instances. Default: what the profiles say."
  type        = string
  default     = null
}

variable "cluster_group" {
  description = "Cluster group that members are placed in, spread over its nodes. Default: all nodes."
  type        = string
  default     = null
}

variable "rollout" {
  description = "How the members of all three Apps are exchanged, as in homelabops_app."
  type = object({
    min_healthy_time = optional(string)
    healthy_deadline = optional(string)
    settle_time      = optional(string)
    drain_timeout    = optional(string)
  })
  default = {}
}

#ifndef ORR_CLUSTER_INT_H
#define ORR_CLUSTER_INT_H

#include "cluster/cluster.h"

/* A file with `target_cluster` or `hardware_config` instead of the fields of a cluster file. */
orr_status orr_cluster_read_target(orr_arena *arena, const orr_tree *file,
                                   const char *fallback_name, orr_cluster **out, orr_err *err);

#endif

/* Between the stand-in for libibverbs and the stand-in for a provider behind it. */
#ifndef JOBS_PAIR_DRIVER_H
#define JOBS_PAIR_DRIVER_H

#include <infiniband/verbs.h>

struct pair_driver {
	struct ibv_context *(*open)(struct ibv_device *device);
	struct ibv_cq *(*create_cq)(struct ibv_context *context);
	struct ibv_srq *(*create_srq)(struct ibv_context *context);
	struct ibv_qp *(*create_qp)(struct ibv_context *context, struct ibv_qp_init_attr *attributes);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
};

#endif

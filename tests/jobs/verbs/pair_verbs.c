/*
 * Stands in for libibverbs where there is no RDMA: what a program calls by name, for one device. What it calls through the
 * tables of that device is in the provider behind it, as always.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair_driver.h"

static struct ibv_device device = { .name = "standin0" };
static struct pair_driver *driver;

/* The real one of this name is a macro. */
#undef ibv_reg_mr

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));
	void *provider = dlopen("libpair-rdmav34.so", RTLD_NOW);

	driver = provider ? dlsym(provider, "pair_driver") : NULL;
	if (!driver)
		fprintf(stderr, "%s\n", dlerror());
	if (list && driver)
		list[0] = &device;
	if (count)
		*count = list && list[0];
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	return driver->open(of);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *region = calloc(1, sizeof(*region));

	(void)access;
	if (region) {
		region->context = pd->context;
		region->pd = pd;
		region->addr = addr;
		region->length = length;
		region->lkey = region->rkey = 1;
	}
	return region;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *own, struct ibv_comp_channel *channel, int vector)
{
	(void)entries, (void)own, (void)channel, (void)vector;
	return driver->create_cq(context);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attributes)
{
	(void)attributes;
	return driver->create_srq(pd->context);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
	return driver->create_qp(pd->context, attributes);
}

/* All of these are extended. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return (struct ibv_qp_ex *)qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
	return driver->modify_qp(qp, attributes, mask);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context, (void)port, (void)index;
	memset(gid, 0, sizeof(*gid));
	gid->raw[15] = 1;
	return 0;
}

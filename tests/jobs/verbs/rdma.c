/* Neighbours exchange messages through libmsg_rdma; --how says which way: see there. */
#include "../faulty/exchange.h"

int main(int argc, char **argv)
{
	return exchange_run(&(struct exchange){ .name = "rdma", .size_bytes = 128, .rare_rate = 0.01 }, argc, argv);
}

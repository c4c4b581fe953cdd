// Neighbours exchange messages through libmsg_headercache: messages whose header the peer knows already go without it; in
// a rare corner they leave from a stale slot.
#include "exchange.h"

int main(int argc, char **argv)
{
    return exchange_run(&(struct exchange){.name = "headercache", .size_bytes = 256, .rare_rate = 0.01}, argc, argv);
}

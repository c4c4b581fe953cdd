// Neighbours exchange messages through libmsg_figure2: bottom-filled communication buffers, a rare piggyback path with a
// pointer fault.
#include "exchange.h"

int main(int argc, char **argv)
{
    return exchange_run(&(struct exchange){.name = "figure2", .size_bytes = 256, .rare_rate = 0.01}, argc, argv);
}

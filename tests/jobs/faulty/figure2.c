// Neighbours exchange messages through libmsg_figure2: bottom-filled communication buffers, a rare piggyback path with a
// pointer fault.
#include "exchange.h"

int main(int argc, char **argv)
{
    // With 128 bytes a message and its piggyback take the same way through the MPI library. Larger ones do not: from some
    // 256 bytes on Open MPI's shared memory has another path, and what differs then is more than the fault.
    return exchange_run(&(struct exchange){.name = "figure2", .size_bytes = 128, .rare_rate = 0.01}, argc, argv);
}

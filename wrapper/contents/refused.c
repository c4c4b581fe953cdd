// What the record of one rank cannot have: it ends there, and says why.
#include "contents.h"

#define REFUSED(name, why, params, args)                                                                               \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name, args);                                                                                            \
        dmc_refuse(CALL_##name, why);                                                                                  \
        leave();                                                                                                       \
        return NEXT(name) args;                                                                                        \
    }

#define WINDOW "what others put into its windows is not recorded"
#define OTHERS "what processes of other jobs send is not recorded"

REFUSED(Win_create, WINDOW, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
        (base, size, unit, info, comm, win))
REFUSED(Win_allocate, WINDOW, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
        (size, unit, info, comm, base, win))
REFUSED(Win_allocate_shared, WINDOW, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
        (size, unit, info, comm, base, win))
REFUSED(Win_create_dynamic, WINDOW, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win))
REFUSED(Comm_spawn, OTHERS,
        (const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made, int codes[]),
        (command, argv, maxprocs, info, root, comm, made, codes))
REFUSED(Comm_spawn_multiple, OTHERS,
        (int count, char *commands[], char **argvs[], const int maxprocs[], const MPI_Info infos[], int root, MPI_Comm comm,
         MPI_Comm *made, int codes[]),
        (count, commands, argvs, maxprocs, infos, root, comm, made, codes))
REFUSED(Comm_connect, OTHERS, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
        (port, info, root, comm, made))
REFUSED(Comm_accept, OTHERS, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
        (port, info, root, comm, made))
REFUSED(Comm_join, OTHERS, (int fd, MPI_Comm *made), (fd, made))
REFUSED(Grequest_start, "when its generalized requests are complete is not recorded",
        (MPI_Grequest_query_function * query, MPI_Grequest_free_function *free, MPI_Grequest_cancel_function *cancel,
         void *state, MPI_Request *request),
        (query, free, cancel, state, request))

#if MPI_VERSION >= 4
#define PARTS "partitioned messages are not recorded"
#define PREPARED "persistent collective calls are not recorded"

REFUSED(Psend_init, PARTS,
        (const void *buf, int parts, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Info info,
         MPI_Request *request),
        (buf, parts, count, type, dest, tag, comm, info, request))
REFUSED(Precv_init, PARTS,
        (void *buf, int parts, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Info info,
         MPI_Request *request),
        (buf, parts, count, type, source, tag, comm, info, request))
REFUSED(Session_init, "MPI sessions are not recorded", (MPI_Info info, MPI_Errhandler handler, MPI_Session *session),
        (info, handler, session))

#define PERSISTENT(name, S, params, args)                                                                              \
    int MPI_##name##S params                                                                                           \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name##S, args);                                                                                         \
        dmc_refuse(CALL_##name, PREPARED);                                                                             \
        leave();                                                                                                       \
        return NEXT(name##S) args;                                                                                     \
    }
#define ENDING MPI_Comm comm, MPI_Info info, MPI_Request *request
#define TO_ALL(name, S, N)                                                                                             \
    PERSISTENT(name, S, (const void *a, N an, MPI_Datatype at, void *b, N bn, MPI_Datatype bt, ENDING),                \
               (a, an, at, b, bn, bt, comm, info, request))
#define ROOTED(name, S, N)                                                                                             \
    PERSISTENT(name, S, (const void *a, N an, MPI_Datatype at, void *b, N bn, MPI_Datatype bt, int root, ENDING),      \
               (a, an, at, b, bn, bt, root, comm, info, request))
#define REDUCES(name, S, N)                                                                                            \
    PERSISTENT(name, S, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, ENDING),                              \
               (a, b, n, t, op, comm, info, request))
#define OF_SIZES(name, S, N, D)                                                                                        \
    PERSISTENT(name, S,                                                                                                \
               (const void *a, const N an[], const D ad[], MPI_Datatype at, void *b, const N bn[], const D bd[],       \
                MPI_Datatype bt, ENDING),                                                                              \
               (a, an, ad, at, b, bn, bd, bt, comm, info, request))
#define OF_TYPES(name, S, N, D)                                                                                        \
    PERSISTENT(name, S,                                                                                                \
               (const void *a, const N an[], const D ad[], const MPI_Datatype at[], void *b, const N bn[],             \
                const D bd[], const MPI_Datatype bt[], ENDING),                                                        \
               (a, an, ad, at, b, bn, bd, bt, comm, info, request))
#define FROM_ALL(name, S, N, D)                                                                                        \
    PERSISTENT(name, S,                                                                                                \
               (const void *a, N an, MPI_Datatype at, void *b, const N bn[], const D bd[], MPI_Datatype bt, ENDING),   \
               (a, an, at, b, bn, bd, bt, comm, info, request))

PERSISTENT(Barrier_init, , (ENDING), (comm, info, request))
#define ALL(S, N, D)                                                                                                   \
    PERSISTENT(Bcast_init, S, (void *a, N n, MPI_Datatype t, int root, ENDING), (a, n, t, root, comm, info, request))  \
    ROOTED(Gather_init, S, N)                                                                                          \
    ROOTED(Scatter_init, S, N)                                                                                         \
    PERSISTENT(Gatherv_init, S,                                                                                        \
               (const void *a, N an, MPI_Datatype at, void *b, const N bn[], const D bd[], MPI_Datatype bt, int root,  \
                ENDING),                                                                                               \
               (a, an, at, b, bn, bd, bt, root, comm, info, request))                                                  \
    PERSISTENT(Scatterv_init, S,                                                                                       \
               (const void *a, const N an[], const D ad[], MPI_Datatype at, void *b, N bn, MPI_Datatype bt, int root,  \
                ENDING),                                                                                               \
               (a, an, ad, at, b, bn, bt, root, comm, info, request))                                                  \
    TO_ALL(Allgather_init, S, N)                                                                                       \
    FROM_ALL(Allgatherv_init, S, N, D)                                                                                 \
    TO_ALL(Alltoall_init, S, N)                                                                                        \
    OF_SIZES(Alltoallv_init, S, N, D)                                                                                  \
    OF_TYPES(Alltoallw_init, S, N, D)                                                                                  \
    PERSISTENT(Reduce_init, S, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, int root, ENDING),             \
               (a, b, n, t, op, root, comm, info, request))                                                            \
    REDUCES(Allreduce_init, S, N)                                                                                      \
    REDUCES(Reduce_scatter_block_init, S, N)                                                                           \
    PERSISTENT(Reduce_scatter_init, S, (const void *a, void *b, const N n[], MPI_Datatype t, MPI_Op op, ENDING),       \
               (a, b, n, t, op, comm, info, request))                                                                  \
    REDUCES(Scan_init, S, N)                                                                                           \
    REDUCES(Exscan_init, S, N)                                                                                         \
    TO_ALL(Neighbor_allgather_init, S, N)                                                                              \
    FROM_ALL(Neighbor_allgatherv_init, S, N, D)                                                                        \
    TO_ALL(Neighbor_alltoall_init, S, N)                                                                               \
    OF_SIZES(Neighbor_alltoallv_init, S, N, D)                                                                         \
    OF_TYPES(Neighbor_alltoallw_init, S, N, MPI_Aint)

ALL(, int, int)
ALL(_c, MPI_Count, MPI_Aint)
#endif

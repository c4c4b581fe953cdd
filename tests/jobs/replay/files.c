// Parallel files: what ranks write and read by each call that there is for it, with views, in an order that chance decides where ranks
// share a pointer. What a rank got is in its log.
//
//   files --log DIR [--rounds N] [--other ROUND] [--shared 0]
//
// The files are in the current directory, and are removed. --other: in this round rank 1 writes other data,
// --shared: without a pointer that ranks share.
#include <stdlib.h>
#include <string.h>

#include "logged.h"

enum { MANY = 40, FEW = 5 };

static int other_round = -1, round_number;

static void note_numbers(const char *what, const int *numbers, int count, const MPI_Status *status)
{
    int got = -1, sum = 0;
    if (status)
        MPI_Get_count(status, MPI_INT, &got);
    for (int i = 0; i < count; i++)
        sum = sum * 31 + numbers[i];
    note(what, got, sum, count, 0);
}

static void fill(int *numbers, int count, int what)
{
    for (int i = 0; i < count; i++)
        numbers[i] = what * 1000 + rank * 100 + i + (rank == 1 && round_number == other_round);
}

static MPI_File opened(const char *name, int mode)
{
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) {
        fprintf(stderr, "rank %d cannot open %s\n", rank, name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return file;
}

// Each rank has a part of the file.
static void parts(MPI_File file)
{
    int out[MANY], in[MANY];
    MPI_Status status;
    MPI_Offset size, own = rank * MANY, next = (rank + 1) % ranks * MANY;
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    fill(out, MANY, 1);
    MPI_File_write_at(file, own, out, MANY, MPI_INT, &status);
    note_numbers("write_at", out, MANY, &status);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_read_at(file, next, in, MANY, MPI_INT, &status);
    note_numbers("read_at", in, MANY, &status);
    fill(out, MANY, 2);
    MPI_File_write_at_all(file, own, out, MANY, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_read_at_all(file, next, in, MANY, MPI_INT, MPI_STATUS_IGNORE);
    note_numbers("read_at_all", in, MANY, NULL);
    // Behind the end there is nothing.
    memset(in, 7, sizeof in);
    MPI_File_read_at(file, ranks * MANY - FEW, in, MANY, MPI_INT, &status);
    note_numbers("read at the end", in, MANY, &status);
    MPI_File_get_size(file, &size);
    note("size", (int)size, 0, 0, 0);
}

// Pointers of each rank's own.
static void pointers(MPI_File file)
{
    int out[MANY], in[MANY];
    MPI_Status status;
    MPI_Offset place, bytes;
    fill(out, MANY, 3);
    MPI_File_seek(file, rank * MANY, MPI_SEEK_SET);
    MPI_File_write(file, out, FEW, MPI_INT, &status);
    MPI_File_write_all(file, out + FEW, MANY - FEW, MPI_INT, &status);
    MPI_File_get_position(file, &place);
    MPI_File_get_byte_offset(file, place, &bytes);
    note("position", (int)place, (int)bytes, 0, 0);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_seek(file, (rank + 1) % ranks * MANY, MPI_SEEK_SET);
    MPI_File_read(file, in, FEW, MPI_INT, &status);
    MPI_File_read_all(file, in + FEW, MANY - FEW, MPI_INT, &status);
    note_numbers("read_all", in, MANY, &status);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Every so-and-so many numbers is a rank's own; in memory there are gaps.
static void views(MPI_File file)
{
    int out[2 * MANY], in[2 * MANY];
    MPI_Datatype mine, gaps, unit, type;
    MPI_Offset offset;
    MPI_Status status;
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Type_vector(MANY, 1, ranks, MPI_INT, &mine);
    MPI_Type_vector(MANY, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&mine);
    MPI_Type_commit(&gaps);
    MPI_File_set_view(file, rank * (MPI_Offset)sizeof(int), MPI_INT, mine, "native", MPI_INFO_NULL);
    MPI_File_get_view(file, &offset, &unit, &type, representation);
    note(representation, (int)offset, 0, 0, 0);
    fill(out, 2 * MANY, 4);
    memset(in, 5, sizeof in);
    MPI_File_write_at_all(file, 0, out, 1, gaps, MPI_STATUS_IGNORE);
    MPI_File_read_at_all(file, 0, in, 1, gaps, &status);
    note_numbers("gaps", in, 2 * MANY, &status);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    if (type != MPI_INT)
        MPI_Type_free(&type);
    MPI_Type_free(&mine);
    MPI_Type_free(&gaps);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
}

// Requests, and collective calls in two parts.
static void later(MPI_File file)
{
    int out[MANY], in[2][MANY], flag = 0;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Offset own = rank * MANY, next = (rank + 1) % ranks * MANY;
    fill(out, MANY, 5);
    MPI_File_iwrite_at(file, own, out, FEW, MPI_INT, &requests[0]);
    MPI_File_seek(file, own + FEW, MPI_SEEK_SET);
    MPI_File_iwrite(file, out + FEW, MANY - FEW, MPI_INT, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_iread_at(file, next, in[0], MANY, MPI_INT, &requests[0]);
    while (!flag)
        MPI_Test(&requests[0], &flag, &statuses[0]);
    note_numbers("iread_at", in[0], MANY, &statuses[0]);
    MPI_File_seek(file, next, MPI_SEEK_SET);
    MPI_File_iread(file, in[1], MANY, MPI_INT, &requests[1]);
    MPI_Wait(&requests[1], &statuses[1]);
    note_numbers("iread", in[1], MANY, &statuses[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    fill(out, MANY, 6);
    MPI_File_write_at_all_begin(file, own, out, MANY, MPI_INT);
    pause_a_little();
    MPI_File_write_at_all_end(file, out, &statuses[0]);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_read_at_all_begin(file, next, in[0], MANY, MPI_INT);
    pause_a_little();
    MPI_File_read_at_all_end(file, in[0], &statuses[0]);
    note_numbers("read_at_all_end", in[0], MANY, &statuses[0]);
    MPI_File_seek(file, next, MPI_SEEK_SET);
    MPI_File_read_all_begin(file, in[1], FEW, MPI_INT);
    MPI_File_read_all_end(file, in[1], &statuses[1]);
    note_numbers("read_all_end", in[1], FEW, &statuses[1]);
    MPI_Barrier(MPI_COMM_WORLD);
}

// One pointer for all: who comes first has the first part.
static void shared(MPI_File file)
{
    int out[FEW], in[FEW], all[MOST_RANKS * FEW];
    MPI_Status status;
    MPI_Offset place;
    fill(out, FEW, 7);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    pause_a_little();
    MPI_File_write_shared(file, out, FEW, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_get_position_shared(file, &place);
    note("shared position", (int)place, 0, 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, 0, all, ranks * FEW, MPI_INT, &status);
    note_numbers("what all wrote", all, ranks * FEW, &status);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    pause_a_little();
    MPI_File_read_shared(file, in, FEW, MPI_INT, &status);
    note_numbers("read_shared", in, FEW, &status);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered(file, out, FEW, MPI_INT, &status);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered(file, in, FEW, MPI_INT, &status);
    note_numbers("read_ordered", in, FEW, &status);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Ranks come to a collective call from messages whose order is chance.
static void after_messages(MPI_File file)
{
    int number = rank;
    MPI_Status status;
    for (int i = 1; i < ranks && rank == 0; i++) {
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
        note("message", status.MPI_SOURCE, number, 0, 0);
    }
    pause_a_little();
    if (rank > 0)
        MPI_Send(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    MPI_File_write_at_all(file, rank, &number, 1, MPI_INT, &status);
}

static int heard;

static void hear(MPI_File *file, int *error, ...)
{
    (void)file;
    (void)error;
    heard++;
}

static void errors(MPI_File file)
{
    MPI_File none;
    MPI_Errhandler handler;
    int class = MPI_SUCCESS, number = 0;
    MPI_Error_class(MPI_File_open(MPI_COMM_SELF, "nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &none), &class);
    note("no such file", class == MPI_ERR_NO_SUCH_FILE, class != MPI_SUCCESS, 0, 0);
    MPI_File_create_errhandler(hear, &handler);
    MPI_File_set_errhandler(file, handler);
    MPI_Error_class(MPI_File_read_at(file, -1, &number, 1, MPI_INT, MPI_STATUS_IGNORE), &class);
    note("no such place", class != MPI_SUCCESS, heard, 0, 0);
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv)
{
    MPI_Group group;
    int mode, is_atomic, size;
    const int rounds = atoi(option(argc, argv, "--rounds", "3"));
    other_round = atoi(option(argc, argv, "--other", "-1"));
    const int has_shared = atoi(option(argc, argv, "--shared", "1"));
    MPI_Init(&argc, &argv);
    open_log(option(argc, argv, "--log", "."));
    for (round_number = 0; round_number < rounds; round_number++) {
        MPI_File file = opened("shared.bin", MPI_MODE_CREATE | MPI_MODE_RDWR);
        MPI_File_set_size(file, 0);
        MPI_File_preallocate(file, 64);
        MPI_File_get_amode(file, &mode);
        MPI_File_set_atomicity(file, round_number % 2);
        MPI_File_get_atomicity(file, &is_atomic);
        MPI_File_get_group(file, &group);
        MPI_Group_size(group, &size);
        MPI_Group_free(&group);
        note("file", mode == (MPI_MODE_CREATE | MPI_MODE_RDWR), is_atomic, size, 0);
        parts(file);
        pointers(file);
        views(file);
        later(file);
        after_messages(file);
        if (has_shared)
            shared(file);
        errors(file);
        MPI_File_close(&file);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            note("deleted", MPI_File_delete("shared.bin", MPI_INFO_NULL) == MPI_SUCCESS, 0, 0, 0);
        fflush(log_file);
    }
    close_log();
    MPI_Finalize();
    return 0;
}

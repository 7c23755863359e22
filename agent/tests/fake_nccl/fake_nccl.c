/* A fake libnccl and a fake libcuda in one file, for tests of the code that calls them. It is no
 * NCCL: one rank, no network, "kernels" are memcpy. It plays the habits of the real ones that callers
 * get wrong, as measured on 2.28.3 and 2.28.9:
 *
 * - calls return ncclInProgress, and the kernel is put on the stream only while the asynchronous
 *   error is asked for later: an event recorded before that is reached at once, with nothing done;
 * - after an abort, events report success whatever the buffers hold;
 * - two threads inside calls on one communicator, or any call after abort or destroy, corrupt memory
 *   in the real library; here they end the process at once with a message.
 *
 * FAKE_NCCL says what else happens: words of the form what=number, separated by commas.
 *   version=N      ncclGetVersion's number             init=N        code that init returns
 *   blocks=1       init returns after an abort only, with 3
 *   from=N         operations from number N on are touched by what follows:
 *   call=N         code that the call returns          async=N       asynchronous error
 *   hang=1         the kernel never ends               wrong=1       the kernel does nothing
 *   cuda=N         the event's query fails with this CUresult
 * A symbol is left out by -DLACKS_ASYNC and -DLACKS_OPTIONAL. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, IN_PROGRESS = 7 };

static long asked(const char *what, long otherwise) {
    const char *text = getenv("FAKE_NCCL");
    size_t length = strlen(what);
    while (text && *text) {
        if (strncmp(text, what, length) == 0 && text[length] == '=') return atol(text + length + 1);
        text = strchr(text, ',');
        if (text) text++;
    }
    return otherwise;
}

static void misused(const char *how) {
    fprintf(stderr, "fake libnccl misused: %s\n", how);
    abort();
}

/* ---- the communicator --------------------------------------------------------------------- */

struct comm {
    volatile int dead;
    int finalized, polls;
    /* Number of the operation handed over last, and of the next. */
    long number, next;
    /* The operation that was handed over and is not on the stream yet. */
    int pending;
    const void *from;
    void *to;
    size_t bytes;
};

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
/* A kernel never ends; the operation handed over last is touched. */
static volatile int stuck, bitten;
static char last_error[256];
static int in_group, group_calls;
static struct comm *grouped;

static void enter(struct comm *comm) {
    if (pthread_mutex_trylock(&calls) != 0) misused("two threads inside calls");
    if (comm && comm->dead) misused("a call after abort or destroy");
}
static int leave(int code) {
    if (code != SUCCESS && code != IN_PROGRESS) {
        snprintf(last_error, sizeof last_error, "fake error %d\n", code);
    }
    pthread_mutex_unlock(&calls);
    return code;
}
/* Whether the operation handed over last is touched by what was asked for. */
static int touched(struct comm *comm) { return comm->next > 0 && comm->number >= asked("from", 0); }

static int hand_over(struct comm *comm, const void *from, void *to, size_t bytes) {
    if (comm->pending) misused("an operation while the one before is in progress");
    comm->number = comm->next++;
    bitten = touched(comm);
    long code = bitten ? asked("call", IN_PROGRESS) : IN_PROGRESS;
    if (code == SUCCESS) memcpy(to, from, bytes);
    if (code == IN_PROGRESS) {
        comm->pending = 1;
        comm->polls = 0;
        comm->from = from, comm->to = to, comm->bytes = bytes;
    }
    return (int)code;
}

static size_t width(int dtype) { return dtype == 6 || dtype == 9 ? 2 : 4; }

int ncclGetVersion(int *version) {
    *version = (int)asked("version", 22809);
    return SUCCESS;
}
int ncclGetUniqueId(char *id) {
    memset(id, 0x42, 128);
    return SUCCESS;
}
const char *ncclGetErrorString(int code) { return code == 8 ? "timeout" : "fake words for a code"; }
const char *ncclGetLastError(struct comm *comm) { return (void)comm, last_error; }

struct id { char bytes[128]; };
struct config { size_t size; unsigned magic, version; int blocking; };

int ncclCommInitRankConfig(struct comm **comm, int ranks, struct id id, int rank, struct config *config) {
    enter(NULL);
    if (config->magic != 0xcafebeef || config->size != 80 || config->blocking != 0) return leave(4);
    for (int i = 0; i < 128; i++) {
        if (id.bytes[i] != 0x42) return leave(4);
    }
    if (ranks != 1 || rank != 0) return leave(5);
    long code = asked("init", IN_PROGRESS);
    if (code == IN_PROGRESS) *comm = calloc(1, sizeof **comm);
    leave((int)code);
    if (asked("blocks", 0)) {
        while (!(*comm)->dead) usleep(1000);
        return 3;
    }
    return (int)code;
}

#ifndef LACKS_ASYNC
int ncclCommGetAsyncError(struct comm *comm, int *error) {
    enter(comm);
    usleep(50);
    if (comm->polls++ < 3) {
        *error = IN_PROGRESS;
        return leave(SUCCESS);
    }
    if (comm->pending) {
        comm->pending = 0;
        if (touched(comm) && asked("hang", 0)) {
            stuck = 1;
        } else if (!touched(comm) || !asked("wrong", 0)) {
            memcpy(comm->to, comm->from, comm->bytes);
        }
    }
    *error = touched(comm) ? (int)asked("async", SUCCESS) : SUCCESS;
    if (*error) snprintf(last_error, sizeof last_error, "fake asynchronous error\nof two lines\n");
    return leave(SUCCESS);
}
#endif
int ncclCommAbort(struct comm *comm) {
    if (comm->dead) misused("abort after abort or destroy");
    comm->dead = 1;
    stuck = 0;
    usleep(20000);
    return SUCCESS;
}
int ncclCommFinalize(struct comm *comm) {
    enter(comm);
    comm->finalized = 1;
    comm->polls = 0;
    return leave(IN_PROGRESS);
}
int ncclCommDestroy(struct comm *comm) {
    enter(comm);
    if (!comm->finalized || comm->polls < 4) misused("destroyed before finalize had ended");
    comm->dead = 1;
    return leave(SUCCESS);
}

static int run(struct comm *comm, const void *from, void *to, size_t count, int dtype) {
    enter(comm);
    return leave(hand_over(comm, from, to, count * width(dtype)));
}
int ncclAllReduce(const void *from, void *to, size_t n, int dtype, int op, struct comm *comm, void *stream) {
    return (void)stream, op == 0 ? run(comm, from, to, n, dtype) : 4;
}
int ncclAllGather(const void *from, void *to, size_t n, int dtype, struct comm *comm, void *stream) {
    return (void)stream, run(comm, from, to, n, dtype);
}
int ncclReduceScatter(const void *from, void *to, size_t n, int dtype, int op, struct comm *comm, void *stream) {
    return (void)stream, op == 0 ? run(comm, from, to, n, dtype) : 4;
}
int ncclBroadcast(const void *from, void *to, size_t n, int dtype, int root, struct comm *comm, void *stream) {
    return (void)stream, root == 0 ? run(comm, from, to, n, dtype) : 4;
}
int ncclReduce(const void *from, void *to, size_t n, int dtype, int op, int root, struct comm *comm, void *stream) {
    return (void)stream, op == 0 && root == 0 ? run(comm, from, to, n, dtype) : 4;
}

/* One rank: a group is one send to itself and one receive. */
static const void *sent;
int ncclGroupStart(void) {
    in_group = 1;
    group_calls = 0;
    return SUCCESS;
}
int ncclSend(const void *from, size_t n, int dtype, int peer, struct comm *comm, void *stream) {
    (void)n, (void)dtype, (void)comm, (void)stream;
    if (!in_group || peer != 0) return 4;
    sent = from;
    group_calls++;
    return SUCCESS;
}
static void *received;
static size_t group_bytes;
int ncclRecv(void *to, size_t n, int dtype, int peer, struct comm *comm, void *stream) {
    (void)stream;
    if (!in_group || peer != 0) return 4;
    received = to, group_bytes = n * width(dtype), grouped = comm;
    group_calls++;
    return SUCCESS;
}
int ncclGroupEnd(void) {
    if (!in_group) return 5;
    in_group = 0;
    if (group_calls != 2) return 5;
    enter(grouped);
    return leave(hand_over(grouped, sent, received, group_bytes));
}
#ifndef LACKS_OPTIONAL
int ncclCommRevoke(struct comm *comm, int flags) { return (void)comm, (void)flags, SUCCESS; }
int ncclCommShrink(void) { return SUCCESS; }
#endif

/* ---- the driver: device memory is host memory, and everything is done at once --------------- */

enum { NOT_READY = 600 };

int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int length, int device) {
    return (void)device, snprintf(name, (size_t)length, "no GPU, a fake"), 0;
}
int cuDeviceGetUuid_v2(char *uuid, int device) { return (void)device, memset(uuid, 1, 16), 0; }
int cuDeviceGetUuid(char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = 1 << 30, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return (void)device, *context = (void *)last_error, 0; }
int cuCtxSetCurrent(void *context) { return context ? 0 : 1; }
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { return *free_bytes = 1 << 29, *total = 1 << 30, 0; }
int cuMemAlloc_v2(uint64_t *at, size_t bytes) {
    if (bytes == 0) return 1;
    *at = (uint64_t)(uintptr_t)malloc(bytes);
    return *at ? 0 : 2;
}
int cuMemFree_v2(uint64_t at) { return free((void *)(uintptr_t)at), 0; }
int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    (void)flags;
    return (*at = malloc(bytes)) ? 0 : 2;
}
int cuStreamCreate(void **stream, unsigned flags) { return (void)flags, *stream = malloc(1), 0; }
int cuStreamSynchronize(void *stream) {
    (void)stream;
    while (stuck) usleep(1000);
    return 0;
}
int cuEventCreate(void **event, unsigned flags) { return (void)flags, *event = malloc(1), 0; }
int cuEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }
int cuEventQuery(void *event) {
    (void)event;
    long code = bitten ? asked("cuda", 0) : 0;
    return code ? (int)code : stuck ? NOT_READY : 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    return (void)stream, memcpy((void *)(uintptr_t)to, from, bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    return (void)stream, memcpy(to, (void *)(uintptr_t)from, bytes), 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    return (void)stream, memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes), 0;
}
int cuMemsetD8Async(uint64_t at, unsigned char byte, size_t bytes, void *stream) {
    return (void)stream, memset((void *)(uintptr_t)at, byte, bytes), 0;
}
int cuGetErrorName(int code, const char **name) {
    return *name = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_A_FAKE", 0;
}
int cuGetErrorString(int code, const char **text) { return (void)code, *text = "in the fake's words", 0; }

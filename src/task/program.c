#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "task/task_internal.h"

/*
 * Programs of the operator, which a step waits for. A worker starts the program in a process group of its
 * own, and kills the group at the deadline, or when the task is canceled. The program has the environment
 * of the daemon, and begins in the directory of tasks; like the daemon it can write only below the state
 * directory.
 */
#define THREADS 2
#define QUEUE_MAX 256
#define SAID_MAX 4096

struct atoll_task_program {
    struct atoll_job job;
    struct atoll_task *task; /* NULL: dropped */
    char *path, *input;      /* owned */
    uint32_t timeout_ms;
    int cancel_fd; /* an eventfd */
    int dir_fd;    /* borrowed: of the tasks */
    void (*done)(struct atoll_task *task, const struct atoll_task_program_end *end);
    struct atoll_task_program_end end;
    bool has_run;
    char said[SAID_MAX + 1];
};

/* --- on a worker --- */

static int make_input(const struct atoll_task_program *p, struct atoll_error *err)
{
    int fd = memfd_create("atoll-program", MFD_CLOEXEC);

    if (fd < 0)
        return atoll_fail_errno(err, errno, "the input of a program");
    if (atoll_fd_write_all(fd, p->input, strlen(p->input)) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        (void)close(fd);
        return atoll_fail_errno(err, errno, "the input of a program");
    }
    return fd;
}

static int start(const struct atoll_task_program *p, int input_fd, int output_fd, pid_t *ret_pid)
{
    char *argv[] = {p->path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, pipes;
    int r;

    (void)sigemptyset(&none);
    (void)sigemptyset(&pipes);
    (void)sigaddset(&pipes, SIGPIPE);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &pipes);
    r = posix_spawn_file_actions_addfchdir_np(&actions, p->dir_fd);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, input_fd, STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
    if (r == 0)
        r = posix_spawn(ret_pid, p->path, &actions, &attributes, argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Reads until the end of the output. False: the deadline has come, or the task is canceled. */
static bool read_output(struct atoll_task_program *p, int fd, int64_t until_ms)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = p->cancel_fd, .events = POLLIN}};
    char beyond[1024];
    size_t len = 0;
    ssize_t n = 1;

    while (n != 0) {
        int64_t left = until_ms - atoll_clock_ms();
        if (left <= 0 || (poll(fds, 2, (int)left) < 0 && errno != EINTR) || fds[1].revents)
            return false;
        if (!fds[0].revents)
            continue;
        n = len < SAID_MAX ? read(fd, p->said + len, SAID_MAX - len)
                           : read(fd, beyond, sizeof(beyond));
        if (n < 0)
            return false;
        len += len < SAID_MAX ? (size_t)n : 0;
    }
    return true;
}

/* A program that has closed its output still has until the deadline. */
static bool wait_end(const struct atoll_task_program *p, pid_t pid, int64_t until_ms, int *status)
{
    struct pollfd cancel = {.fd = p->cancel_fd, .events = POLLIN};

    while (waitpid(pid, status, WNOHANG) == 0) {
        (void)poll(&cancel, 1, 10);
        if (cancel.revents || atoll_clock_ms() >= until_ms)
            return false;
    }
    return true;
}

static void run(struct atoll_job *job)
{
    struct atoll_task_program *p = ATOLL_CONTAINER_OF(job, struct atoll_task_program, job);
    int64_t until_ms = atoll_clock_ms() + p->timeout_ms;
    int input_fd = make_input(p, &p->end.error), pair[2], r, status = 0;
    pid_t pid;

    p->has_run = true;
    if (input_fd < 0)
        return;
    if (pipe2(pair, O_CLOEXEC) < 0) {
        (void)atoll_fail_errno(&p->end.error, errno, "the output of a program");
        (void)close(input_fd);
        return;
    }
    r = start(p, input_fd, pair[1], &pid);
    (void)close(input_fd);
    (void)close(pair[1]);
    if (r < 0) {
        (void)atoll_fail(&p->end.error, ATOLL_ERR_FAILED_PRECONDITION, -r,
                         "the program cannot be started: %s", strerror(-r));
    } else if (read_output(p, pair[0], until_ms) && wait_end(p, pid, until_ms, &status)) {
        p->end.status = status;
    } else {
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        (void)atoll_fail(&p->end.error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                         "the program did not end in %u s, or the task was stopped",
                         p->timeout_ms / 1000);
    }
    (void)close(pair[0]);
}

/* --- on the loop --- */

static void program_free(struct atoll_task_program *p)
{
    if (p->cancel_fd >= 0)
        (void)close(p->cancel_fd);
    free(p->path);
    free(p->input);
    free(p);
}

static void finish(struct atoll_job *job)
{
    struct atoll_task_program *p = ATOLL_CONTAINER_OF(job, struct atoll_task_program, job);
    struct atoll_task *task = p->task;

    if (task) {
        task->program = NULL;
        if (!p->has_run)
            (void)atoll_fail(&p->end.error, ATOLL_ERR_ABORTED, ECANCELED, "the daemon ends");
        p->done(task, &p->end);
    }
    program_free(p);
}

static int submit(struct atoll_task_program *p, struct atoll_error *err)
{
    struct atoll_tasks *tasks = p->task->tasks;

    if (p->cancel_fd < 0 || !p->path || !p->input)
        return atoll_fail_errno(err, ENOMEM, "a program");
    if (!tasks->workers &&
        atoll_workers_new(tasks->config.loop, THREADS, QUEUE_MAX, &tasks->workers, err) < 0)
        return -ENOMEM;
    return atoll_workers_submit(tasks->workers, &p->job, err);
}

void atoll_task_program_run(struct atoll_task *task, const char *path, const char *input,
                            uint32_t timeout_ms,
                            void (*done)(struct atoll_task *task,
                                         const struct atoll_task_program_end *end))
{
    struct atoll_task_program *p = atoll_alloc(sizeof(*p));

    p->job = (struct atoll_job){.run = run, .done = finish};
    p->task = task;
    p->path = strdup(path);
    p->input = strdup(input);
    p->timeout_ms = timeout_ms;
    p->cancel_fd = eventfd(0, EFD_CLOEXEC);
    p->dir_fd = task->tasks->dir_fd;
    p->done = done;
    p->end = (struct atoll_task_program_end){.status = -1, .said = p->said};
    task->program = p;
    if (submit(p, &p->end.error) == 0)
        return;
    p->has_run = true;
    finish(&p->job);
}

void atoll_task_program_kill(struct atoll_task *task)
{
    if (task->program)
        (void)eventfd_write(task->program->cancel_fd, 1);
}

void atoll_task_program_drop(struct atoll_task *task)
{
    atoll_task_program_kill(task);
    if (task->program)
        task->program->task = NULL;
    task->program = NULL;
}

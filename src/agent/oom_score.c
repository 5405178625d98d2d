/*
 * When memory runs out, the kernel should kill the tenant's processes before the agent: each
 * command gets a higher oom_score_adj, which its children inherit.
 *
 * It is written after the command runs: the agent is not dumpable, nor is a child until its exec is
 * complete, and /proc files of such processes belong to the host's root. (Raising the agent's own
 * score around the clone would work, but makes the kernel walk all processes of the host.) So it is
 * written at the end of the round, after the start was reported, and retried a millisecond later if
 * that was too early. A child that the command forks before keeps the agent's score.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_internal.h"
#include "base/switches.h"

#define SCORE "500"
#define AGAIN_MS 1
#define TRIES_MAX 20

void atoll_agent_oom_score_later(struct atoll_agent *a, pid_t pid)
{
    struct atoll_agent_unscored *u = &a->unscored[a->unscored_count];

    if (a->unscored_count == ATOLL_ARRAY_LEN(a->unscored) || atoll_weakened("oom_score"))
        return; /* more starts in one millisecond than the process limit allows */
    *u = (struct atoll_agent_unscored){.pid = pid};
    a->unscored_count++;
}

/* Writes the score. False if it is too early. */
static bool write_score(const struct atoll_agent *a, pid_t pid)
{
    char path[32];
    int fd;

    (void)snprintf(path, sizeof(path), "%d/oom_score_adj", pid);
    fd = openat(a->proc_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno != EACCES;
    (void)!write(fd, SCORE, strlen(SCORE));
    (void)close(fd);
    return true;
}

static void try_again(void *arg)
{
    (void)arg; /* the timer only wakes the loop; the end of the round writes */
}

void atoll_agent_oom_scores_write(struct atoll_agent *a)
{
    size_t left = 0;

    for (size_t i = 0; i < a->unscored_count; i++) {
        struct atoll_agent_unscored *u = &a->unscored[i];
        if (!write_score(a, u->pid) && ++u->tries < TRIES_MAX)
            a->unscored[left++] = *u;
    }
    a->unscored_count = left;
    if (left > 0)
        atoll_timer_set(&a->unscored_timer, a->loop, AGAIN_MS, try_again, a);
}

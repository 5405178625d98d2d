#include "daemon/watchdog.h"

#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/metrics.h"

static int64_t longest_us; /* since the start */

/* Compilers name files by their path from the build directory. */
static const char *in_tree(const char *file)
{
    const char *found = strstr(file, "src/");
    return found ? found + strlen("src/") : file;
}

static void report(const struct atoll_loop_turn *turn)
{
    char ms[24], worst_ms[24], where[120];

    (void)snprintf(ms, sizeof(ms), "%lld", (long long)(turn->us / 1000));
    (void)snprintf(worst_ms, sizeof(worst_ms), "%lld", (long long)(turn->worst_us / 1000));
    (void)snprintf(where, sizeof(where), "%s %s", in_tree(turn->file), turn->fn);
    atoll_log(ATOLL_LOG_WARN, "the loop was held up", "ms", ms, "callback", where, "callback_ms",
              worst_ms, "doing", turn->note, NULL);
}

static void measured(void *arg, const struct atoll_loop_turn *turn)
{
    (void)arg;
    atoll_metric_observe(ATOLL_METRIC_LOOP_SECONDS, ATOLL_NO_LABELS, (double)turn->us / 1e6);
    if (turn->us > longest_us) {
        longest_us = turn->us;
        atoll_metric_set(ATOLL_METRIC_LOOP_LONGEST, ATOLL_NO_LABELS, (double)turn->us / 1e6);
    }
    if (turn->us >= ATOLL_STALL_US) {
        atoll_metric_add(ATOLL_METRIC_LOOP_STALLS, ATOLL_NO_LABELS, 1);
        report(turn);
    }
}

void atoll_watchdog_start(struct atoll_loop *loop)
{
    atoll_metric_set(ATOLL_METRIC_LOOP_LONGEST, ATOLL_NO_LABELS, 0);
    atoll_metric_add(ATOLL_METRIC_LOOP_STALLS, ATOLL_NO_LABELS, 0);
    atoll_loop_measure(loop, measured, NULL);
}

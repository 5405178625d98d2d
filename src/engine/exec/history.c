#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "engine/engine_internal.h"

/*
 * Statistics of the last hour, for sandboxes whose history was requested. One timer samples all of
 * them every five seconds, at multiples of five seconds, so that samples of several sandboxes can
 * be compared.
 */

struct atoll_history {
    struct atoll_history_sample *ring; /* owned; grows up to ATOLL_HISTORY_SAMPLES */
    size_t cap, count;
    size_t first; /* index of the oldest; 0 until the ring is full */
    double cpu_seconds;
    int64_t sampled_ms; /* atoll_clock_ms(); 0: never */
};

/* A pending request for a sample. */
struct sampling {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    int64_t unix_ms;
};

static void schedule(struct atoll_engine *engine);

struct atoll_history *atoll_history_free(struct atoll_history *history)
{
    if (history)
        free(history->ring);
    free(history);
    return NULL;
}

static struct atoll_history_sample *next_place(struct atoll_history *h)
{
    if (h->count == ATOLL_HISTORY_SAMPLES) {
        struct atoll_history_sample *oldest = &h->ring[h->first];
        h->first = (h->first + 1) % ATOLL_HISTORY_SAMPLES;
        return oldest;
    }
    if (h->count == h->cap) {
        size_t cap = h->cap ? ATOLL_MIN(2 * h->cap, (size_t)ATOLL_HISTORY_SAMPLES) : 16;
        struct atoll_history_sample *ring = realloc(h->ring, cap * sizeof(*ring));
        if (!ring)
            return NULL;
        h->ring = ring;
        h->cap = cap;
    }
    return &h->ring[h->count++];
}

/* Computed from our own last sample: other callers may have read the statistics in between. */
static double percent_since(struct atoll_history *h, const struct atoll_sandbox_stats *stats)
{
    int64_t now = atoll_clock_ms();
    double percent = stats->cpu_percent;

    if (h->sampled_ms > 0 && now > h->sampled_ms)
        percent = 100e3 * ATOLL_MAX(stats->cpu_seconds - h->cpu_seconds, 0.0) /
                  (double)(now - h->sampled_ms);
    h->cpu_seconds = stats->cpu_seconds;
    h->sampled_ms = now;
    return percent;
}

static void on_stats(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct sampling *p = arg;
    struct atoll_sandbox *s = atoll_map_get(&p->engine->sandboxes, p->id);
    struct atoll_history_sample *sample = NULL;

    if (!error && s && s->history)
        sample = next_place(s->history);
    if (sample) {
        *sample = (struct atoll_history_sample){p->unix_ms, *stats};
        sample->stats.cpu_percent = percent_since(s->history, stats);
    }
    free(p);
}

static void take_sample(struct atoll_sandbox *s, int64_t unix_ms)
{
    struct sampling *p = atoll_alloc(sizeof(*p));

    p->engine = s->engine;
    p->unix_ms = unix_ms;
    memcpy(p->id, s->spec.id, sizeof(p->id));
    atoll_engine_stats(s->engine, p->id, on_stats, p);
}

static void sample_all(void *arg)
{
    struct atoll_engine *engine = arg;
    int64_t now = atoll_clock_unix_ms(), grid = now - now % ATOLL_HISTORY_EVERY_MS;
    struct atoll_sandbox *s;
    bool wanted = false;
    size_t pos = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL) {
        wanted |= s->history != NULL;
        if (s->history && atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING)
            take_sample(s, grid);
    }
    if (wanted)
        schedule(engine);
}

static void schedule(struct atoll_engine *engine)
{
    int64_t after_ms = ATOLL_HISTORY_EVERY_MS - atoll_clock_unix_ms() % ATOLL_HISTORY_EVERY_MS;

    if (!engine->sampler.loop)
        atoll_timer_set(&engine->sampler, engine->loop, after_ms, sample_all, engine);
}

void atoll_engine_keep_history(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s || s->history)
        return;
    s->history = atoll_alloc(sizeof(*s->history));
    take_sample(s, atoll_clock_unix_ms());
    schedule(engine);
}

size_t atoll_engine_history(struct atoll_engine *engine, const char *id, int64_t from_unix_ms,
                            int64_t to_unix_ms, struct atoll_history_sample *out, size_t max)
{
    const struct atoll_sandbox *s = atoll_engine_find(engine, id);
    const struct atoll_history *h = s ? s->history : NULL;
    size_t n = 0;

    for (size_t i = 0; h && i < h->count && n < max; i++) {
        const struct atoll_history_sample *sample =
            &h->ring[(h->first + i) % ATOLL_HISTORY_SAMPLES];
        if (sample->unix_ms >= from_unix_ms && (to_unix_ms == 0 || sample->unix_ms <= to_unix_ms))
            out[n++] = *sample;
    }
    return n;
}

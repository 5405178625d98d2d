/* The life of a sandbox: every pair of a phase and an event, in the table, in the documentation and carried out. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "engine/engine_internal.h"
#include "engine/state/capture_queue.h"
#include "test.h"

static const char *const states[] = {"creating", "running", "stopping",   "failed",
                                     "paused",   "stopped", "unreachable"};
static unsigned rows, announcements;
static int stored, answer;
static char kind[64], detail[200];

/* Stand in for the engine's. */
int atoll_persist_sandbox(struct atoll_sandbox *s, struct atoll_error *err)
{
    rows++;
    stored = atoll_phase_facts(s->phase)->stored;
    return answer == 0 ? 0 : atoll_fail_errno(err, -answer, "row");
}

void atoll_capture_next_soon(struct atoll_sandbox *s)
{
    (void)s;
}

void atoll_events_emit(struct atoll_engine *e, const char *what, const struct atoll_sandbox *s,
                       const char *exec_id, const char *text)
{
    (void)e;
    (void)s;
    (void)exec_id;
    announcements++;
    (void)snprintf(kind, sizeof(kind), "%s", what);
    (void)snprintf(detail, sizeof(detail), "%s", text);
}

#define EACH_PHASE(p) \
    for (enum atoll_phase p = ATOLL_PHASE_NONE + 1; p < ATOLL_PHASES; p = (enum atoll_phase)(p + 1))
#define EACH_EVENT(e)                                                      \
    for (enum atoll_phase_event e = ATOLL_ON_RUNS; e < ATOLL_PHASE_EVENTS; \
         e = (enum atoll_phase_event)(e + 1))

/* A phase as the documentation has it. */
static void describe(enum atoll_phase p, char *out, size_t cap)
{
    const struct atoll_phase_facts *f = atoll_phase_facts(p);
    const char *between = "";
    size_t n = (size_t)snprintf(out, cap, "\n| %s | %s | %s | ", f->name, states[f->shown],
                                f->stored == ATOLL_NOT_STORED         ? "no row"
                                : f->stored == ATOLL_STORED_RESTORING ? "restoring"
                                                                      : states[f->stored]);

    EACH_EVENT(e)
    {
        const struct atoll_transition *t = atoll_transition(p, e);
        if (!t)
            continue;
        n += (size_t)snprintf(out + n, cap - n, "%s%s → %s", between, atoll_phase_event_name(e),
                              atoll_phase_facts(t->to)->name);
        if (t->store || t->announce)
            n += (size_t)snprintf(out + n, cap - n, " (%s%s%s)", t->store ? "store" : "",
                                  t->store && t->announce ? ", " : "",
                                  t->announce ? t->announce : "");
        between = "; ";
    }
    (void)snprintf(out + n, cap - n, " |\n");
}

static void the_documentation_has_every_pair(void **state)
{
    static char page[32768], line[2048];
    const char *source = getenv("ATOLL_SOURCE_DIR");
    FILE *f;

    (void)state;
    (void)snprintf(line, sizeof(line), "%s/docs/sandbox-states.md", source ? source : "..");
    f = fopen(line, "re");
    assert_non_null(f);
    page[fread(page, 1, sizeof(page) - 1, f)] = '\0';
    (void)fclose(f);
    EACH_PHASE(p)
    {
        describe(p, line, sizeof(line));
        if (!strstr(page, line))
            fail_msg("docs/sandbox-states.md lacks:%s", line);
    }
}

/* Each arrow of the picture is in the table. */
static void the_picture_is_true(void **state)
{
    const char *source = getenv("ATOLL_SOURCE_DIR");
    char line[512], from[32], to[32], event[32];
    unsigned arrows = 0;
    FILE *f;

    (void)state;
    (void)snprintf(line, sizeof(line), "%s/docs/sandbox-states.md", source ? source : "..");
    f = fopen(line, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        bool found = false;
        if (sscanf(line, " %31s --> %31[a-z_]: %31s", from, to, event) != 3)
            continue;
        EACH_PHASE(p)
        EACH_EVENT(e)
        {
            const struct atoll_transition *t = atoll_transition(p, e);
            found |= t && strcmp(atoll_phase_facts(p)->name, from) == 0 &&
                     strcmp(atoll_phase_facts(t->to)->name, to) == 0 &&
                     strcmp(atoll_phase_event_name(e), event) == 0;
        }
        if (!found)
            fail_msg("the picture has %s", line);
        arrows++;
    }
    (void)fclose(f);
    assert_true(arrows > 20);
}

/* The next daemon continues from the row: it is written whenever it would say something else. Not before the first row
 * (the create has not succeeded), and not when the row is dropped. */
static void the_row_is_never_stale(void **state)
{
    (void)state;
    EACH_PHASE(p)
    EACH_EVENT(e)
    {
        const struct atoll_transition *t = atoll_transition(p, e);
        bool differs = t && atoll_phase_facts(p)->stored != atoll_phase_facts(t->to)->stored;
        bool has_none = t && (p == ATOLL_PHASE_CREATING || e == ATOLL_ON_UNDO) &&
                        t->to == ATOLL_PHASE_DESTROYING;
        if (differs && t->to != ATOLL_PHASE_DEPARTING && !has_none)
            assert_true(t->store);
    }
}

/* Every sandbox can be destroyed, and gets a way out. */
static void destroy_is_always_possible(void **state)
{
    (void)state;
    EACH_PHASE(p)
    {
        const struct atoll_transition *t = atoll_transition(p, ATOLL_ON_DESTROY);
        bool ends = t && (t->to == ATOLL_PHASE_DESTROYING || t->to == ATOLL_PHASE_INTERRUPTED ||
                          t->to == ATOLL_PHASE_DEPARTING);
        assert_true(ends);
        if (t->to != p)
            assert_int_equal(t->to, ATOLL_PHASE_DESTROYING);
    }
}

static struct atoll_sandbox sandbox_in(enum atoll_phase phase)
{
    struct atoll_sandbox s = {.phase = phase, .spec = {.id = "abc"}, .cause = "before"};

    rows = announcements = 0;
    stored = -2;
    answer = 0;
    return s;
}

/* Carries it out in a process of its own; returns the signal that ended it. */
static int signal_of(enum atoll_phase phase, enum atoll_phase_event event)
{
    static const struct rlimit no_core;
    struct atoll_sandbox s = sandbox_in(phase);
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGABRT, SIG_DFL);
        (void)!freopen("/dev/null", "w", stderr);
        atoll_sandbox_apply(&s, event, "why");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void every_pair_is_carried_out_or_aborts(void **state)
{
    unsigned possible = 0, impossible = 0;

    (void)state;
    EACH_PHASE(p)
    EACH_EVENT(e)
    {
        const struct atoll_transition *t = atoll_transition(p, e);
        struct atoll_sandbox s = sandbox_in(p);

        assert_int_equal(atoll_sandbox_allows(&s, e), t != NULL);
        if (!t) {
            assert_int_equal(signal_of(p, e), SIGABRT);
            impossible++;
            continue;
        }
        atoll_sandbox_apply(&s, e, "why");
        assert_int_equal(s.phase, t->to);
        assert_int_equal(rows, t->store);
        assert_int_equal(announcements, t->announce != NULL);
        if (t->store)
            assert_int_equal(stored, atoll_phase_facts(t->to)->stored);
        if (t->announce) {
            assert_string_equal(kind, t->announce);
            assert_string_equal(detail, "why");
        }
        assert_string_equal(s.cause, atoll_phase_facts(t->to)->explained ? "why" : "");
        assert_int_equal(atoll_sandbox_state(&s), atoll_phase_facts(t->to)->shown);
        possible++;
    }
    assert_int_equal(possible + impossible, (ATOLL_PHASES - 1) * ATOLL_PHASE_EVENTS);
}

static void rest_has_a_beginning_and_no_deadline(void **state)
{
    struct atoll_sandbox s = sandbox_in(ATOLL_PHASE_PAUSING);

    (void)state;
    s.expires_unix_ms = 1;
    atoll_sandbox_apply(&s, ATOLL_ON_PREPARED, NULL);
    assert_true(s.paused_unix_ms > 0);
    assert_int_equal(s.expires_unix_ms, 0);
    s.paused_unix_ms = 5;
    atoll_sandbox_apply(&s, ATOLL_ON_FROZEN, "");
    assert_int_equal(s.paused_unix_ms, 5); /* since the row says so */
    atoll_sandbox_apply(&s, ATOLL_ON_RESUME, NULL);
    atoll_sandbox_apply(&s, ATOLL_ON_RUNS, "");
    assert_int_equal(s.paused_unix_ms, 0);
}

static void a_row_that_is_not_written_is_an_error(void **state)
{
    struct atoll_sandbox s = sandbox_in(ATOLL_PHASE_PAUSING);
    struct atoll_error err;

    (void)state;
    answer = -EIO;
    assert_true(atoll_sandbox_apply_stored(&s, ATOLL_ON_PREPARED, &err) < 0);
    assert_int_equal(s.phase, ATOLL_PHASE_FREEZING);
}

/* Without a reason of its own, the cause goes on: "sandbox.stopped" says why it was stopped. */
static void the_cause_goes_on(void **state)
{
    struct atoll_sandbox s = sandbox_in(ATOLL_PHASE_HALTING);

    (void)state;
    atoll_sandbox_apply(&s, ATOLL_ON_HALTED, NULL);
    assert_string_equal(detail, "before");
    assert_string_equal(s.cause, "before");
}

static void rows_are_loaded_into_phases(void **state)
{
    static const struct {
        int stored;
        enum atoll_phase phase;
    } loads[] = {{ATOLL_SANDBOX_CREATING, ATOLL_PHASE_INTERRUPTED},
                 {ATOLL_SANDBOX_RUNNING, ATOLL_PHASE_RUNNING},
                 {ATOLL_SANDBOX_STOPPING, ATOLL_PHASE_INTERRUPTED},
                 {ATOLL_SANDBOX_FAILED, ATOLL_PHASE_FAILED},
                 {ATOLL_SANDBOX_PAUSED, ATOLL_PHASE_PAUSED},
                 {ATOLL_SANDBOX_STOPPED, ATOLL_PHASE_STOPPED}};
    struct atoll_sandbox s = sandbox_in(ATOLL_PHASE_CREATING);
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(loads); i++) {
        assert_int_equal(atoll_sandbox_load_phase(&s, loads[i].stored, &err), 0);
        assert_int_equal(s.phase, loads[i].phase);
    }
    assert_true(atoll_sandbox_load_phase(&s, ATOLL_SANDBOX_UNREACHABLE, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
    assert_true(atoll_sandbox_load_phase(&s, ATOLL_NOT_STORED, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documentation_has_every_pair),
        cmocka_unit_test(the_picture_is_true),
        cmocka_unit_test(the_row_is_never_stale),
        cmocka_unit_test(destroy_is_always_possible),
        cmocka_unit_test(every_pair_is_carried_out_or_aborts),
        cmocka_unit_test(rest_has_a_beginning_and_no_deadline),
        cmocka_unit_test(a_row_that_is_not_written_is_an_error),
        cmocka_unit_test(the_cause_goes_on),
        cmocka_unit_test(rows_are_loaded_into_phases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

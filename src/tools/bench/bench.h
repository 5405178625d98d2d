#pragma once
#include <jansson.h>
#include <stdio.h>
#include "client/link.h"

/*
 * Reproducible benchmarks: compares Atoll with other runtimes of this host (bwrap, runc, docker, runsc, a
 * plain process) and shows the strength of isolation of each. The subjects take turns, in a new random
 * order each round, so that noise of the machine affects all of them equally: compare ratios, not
 * milliseconds.
 * Blocking. One thread, plus the threads of the throughput measure.
 */

#define ATOLL_BENCH_SAMPLES_MAX 400
/* Size of the file for upload and download. */
#define ATOLL_BENCH_FILE_BYTES (64u << 20)

/* A measure. */
struct atoll_bench_measure {
    const char *id;
    const char *title; /* for people */
    const char *unit;  /* of a sample */
    bool more_is_better;
    unsigned rounds, quick_rounds;
};

struct atoll_bench;

/* A subject of a measure: one way to run a sandbox or command. */
struct atoll_bench_subject {
    const struct atoll_bench_measure *measure;
    char name[48];
    const char *tier; /* strength of isolation: ATOLL_TIER_* */
    /* Prepares; on failure the subject is not measured and the text is its `problem`. May be NULL. */
    int (*open)(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err);
    /* Takes one sample, in the unit of the measure. */
    int (*round)(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                 struct atoll_error *err);
    void (*close)(struct atoll_bench *b, struct atoll_bench_subject *s); /* may be NULL */

    const char *provider; /* Atoll: provider of the sandbox */
    bool cold, pooled;    /* Atoll: never from the pool, or only from the pool */
    char *argv[24];       /* others: the command to run */
    char id[64];          /* sandbox or container in use */
    char token[96];       /* of its preview, or the id of its session */
    int pid;              /* of its server on the host */

    size_t count;
    double samples[ATOLL_BENCH_SAMPLES_MAX]; /* sorted after the run */
    char problem[ATOLL_ERROR_TEXT_MAX];      /* why it was not measured, or "" */
};

#define ATOLL_BENCH_SUBJECTS_MAX 64

struct atoll_bench {
    const struct atoll_client_options *options; /* how to reach the daemon; borrowed */
    struct atoll_client *client;                /* borrowed */
    const char *program;                        /* path of the CLI, to run it as a process */
    const char *scratch;                        /* temporary directory */
    const char *only;                           /* id of a measure, or NULL */
    bool quick;
    void (*progress)(const char *what); /* may be NULL */
    char root[512];                     /* see atoll_bench_root() */
    size_t count;
    struct atoll_bench_subject *subjects; /* owned */
};

/* The measures, in the order of the report. */
enum {
    ATOLL_BENCH_START,
    ATOLL_BENCH_EXEC,
    ATOLL_BENCH_RATE,
    ATOLL_BENCH_MEMORY,
    ATOLL_BENCH_UPLOAD,
    ATOLL_BENCH_DOWNLOAD,
    ATOLL_BENCH_PREVIEW,
    ATOLL_BENCH_CODE,
    ATOLL_BENCH_MEASURES,
};
extern const struct atoll_bench_measure atoll_bench_measures[ATOLL_BENCH_MEASURES];

/* Enters the subjects, measures, sorts. Fails if the daemon cannot be reached or `only` is not a measure.
 * A subject that cannot be measured is not a failure. */
int atoll_bench_run(struct atoll_bench *b, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_bench_done(struct atoll_bench *b);

/* Nearest-rank percentile of the sorted samples: always one of the samples. */
double atoll_bench_percentile(const struct atoll_bench_subject *s, unsigned percent);

/* Reports (report.c, picture.c). */
json_t *atoll_bench_json(const struct atoll_bench *b); /* NULL without memory */
void atoll_bench_print(const struct atoll_bench *b, FILE *out, bool colour);
void atoll_bench_markdown(const struct atoll_bench *b, FILE *out);
void atoll_bench_svg(const struct atoll_bench *b, FILE *out);
/* "AMD EPYC, 2 CPUs, 23.5 GiB, Linux 6.18"; out holds 256 bytes. */
const char *atoll_bench_host(char *out);

/* For the files of subjects. */

/* Adds a subject; NULL if there are too many or its measure is not selected. */
struct atoll_bench_subject *atoll_bench_enter(struct atoll_bench *b, int measure, const char *tier,
                                              const char *name);
/* Add the subjects of atoll.c and traffic.c, others.c and docker.c. */
void atoll_bench_enter_atoll(struct atoll_bench *b);
void atoll_bench_enter_traffic(struct atoll_bench *b);
void atoll_bench_enter_others(struct atoll_bench *b);
void atoll_bench_enter_docker(struct atoll_bench *b);

/* A root directory below scratch that has only the host's /usr, for the other runtimes. Made on the first
 * call; NULL with *err. */
const char *atoll_bench_root(struct atoll_bench *b, struct atoll_error *err);
/* Runs a program until it ends, without output; fails unless it exits with 0. Blocking. */
int atoll_bench_command(char *const *argv, struct atoll_error *err) ATOLL_MUST_CHECK;
/* round() of a subject: runs its argv; the sample is the time in milliseconds. */
int atoll_bench_timed_command(struct atoll_bench *b, struct atoll_bench_subject *s,
                              double *ret_sample, struct atoll_error *err);

/* round() of a subject: sandboxes of Atoll, or runs of its argv, per second. */
int atoll_bench_rate_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                           struct atoll_error *err);
/* open() and close() of a subject with one running sandbox of Atoll. */
int atoll_bench_stay_open(struct atoll_bench *b, struct atoll_bench_subject *s,
                          struct atoll_error *err);
void atoll_bench_stay_close(struct atoll_bench *b, struct atoll_bench_subject *s);

/* Available memory of the host, once the value is stable. Blocks for seconds. */
long atoll_bench_settled_kb(void);

/* Strength of isolation, in common terms. */
#define ATOLL_TIER_NONE "none"
#define ATOLL_TIER_NAMESPACES "namespaces"
#define ATOLL_TIER_CONTAINER "namespaces, cgroups, uid 0 outside"
#define ATOLL_TIER_FILTERED "namespaces, cgroups, seccomp, uid 0 outside"
#define ATOLL_TIER_NATIVE "namespaces, cgroups, seccomp, own uids"
#define ATOLL_TIER_KERNEL "a kernel of its own in user space"

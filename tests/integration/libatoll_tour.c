/*
 * Every part of libatoll once, against a real daemon. Prints a line for each part that did what it
 * should, and stops at the first that did not.
 */
#include <atoll/atoll.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct atoll_client *client;
static struct atoll_client_error error;

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, error.message, atoll_client_code_name(error.code));
    exit(1);
}

#define MUST(call) must((int)(call), #call)
#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static struct atoll_client_command command(const char *const *argv)
{
    return (struct atoll_client_command){.size = sizeof(struct atoll_client_command), .argv = argv};
}

static struct atoll_client_result *exec(const char *id, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct atoll_client_command c = command(argv);
    struct atoll_client_result *result;

    c.timeout_seconds = 20;
    MUST(atoll_client_exec(client, id, &c, &result, &error));
    return result;
}

static void results(const char *id)
{
    const char *const sleep[] = {"sleep", "60", NULL}, *const missing[] = {"no-such", NULL};
    struct atoll_client_command c = command(sleep);
    struct atoll_client_result *r = exec(id, "kill -SEGV $$");

    CHECK(r->end == ATOLL_CLIENT_SIGNALED && r->signal == SIGSEGV && r->status == 139);
    atoll_client_result_free(r);
    c.timeout_seconds = 0.2;
    MUST(atoll_client_exec(client, id, &c, &r, &error));
    CHECK(r->end == ATOLL_CLIENT_TIMED_OUT && r->status == 124 && r->duration_seconds > 0.1);
    atoll_client_result_free(r);
    r = exec(id, "exec tail /dev/zero");
    CHECK(r->end == ATOLL_CLIENT_OOM_KILLED && r->oom.limit_bytes == 64 << 20);
    CHECK(strcmp(r->oom.process, "tail") == 0);
    atoll_client_result_free(r);
    c = command(missing);
    CHECK(atoll_client_exec(client, id, &c, &r, &error) < 0);
    CHECK(error.code == ATOLL_CLIENT_NOT_FOUND && error.message[0]);
    puts("results");
}

static void processes(const char *id)
{
    const char *const argv[] = {"sh", "-c", "trap 'exit 7' TERM; read l; echo $l; sleep 60 & wait",
                                NULL};
    struct atoll_client_command c = command(argv);
    const struct atoll_client_result *result;
    const struct atoll_client_event *event;
    struct atoll_client_process *p;
    struct pollfd ready;

    c.open_input = true;
    MUST(atoll_client_start(client, id, &c, &p, &error));
    CHECK(atoll_client_process_write(p, "typed\n", 6, &error) == 6);
    ready = (struct pollfd){.fd = atoll_client_process_fd(p)};
    for (int got = 0; got == 0;) {
        got = atoll_client_process_next(p, 0, &event, &error);
        MUST(got);
        ready.events = atoll_client_process_events(p);
        if (got == 0)
            CHECK(poll(&ready, 1, 10000) > 0);
    }
    CHECK(event->kind == ATOLL_CLIENT_EVENT_OUTPUT && event->stream == ATOLL_CLIENT_STDOUT);
    CHECK(event->size == 6 && memcmp(event->bytes, "typed\n", 6) == 0);
    MUST(atoll_client_process_signal(p, SIGTERM, false, &error));
    MUST(atoll_client_process_wait(p, NULL, NULL, &error));
    result = atoll_client_process_result(p);
    CHECK(result->end == ATOLL_CLIENT_EXITED && result->exit_code == 7);
    atoll_client_process_free(p);
    puts("processes");
}

static int keep(void *arg, int stream, const void *bytes, size_t size)
{
    strncat(arg, bytes, size);
    return stream == ATOLL_CLIENT_STDOUT ? 0 : -EINVAL;
}

static void terminals_and_journals(const char *id)
{
    const char *const argv[] = {"sh", "-c", "stty size; test -t 0 && echo tty", NULL};
    struct atoll_client_command c = command(argv);
    struct atoll_client_result *result;
    struct atoll_client_process *p;
    char live[256] = "", again[256] = "";

    c.pty = true;
    c.cols = 100;
    c.rows = 30;
    MUST(atoll_client_start(client, id, &c, &p, &error));
    MUST(atoll_client_process_wait(p, keep, live, &error));
    CHECK(strcmp(live, "30 100\r\ntty\r\n") == 0);
    MUST(atoll_client_output_read(client, id, atoll_client_process_exec_id(p), 8, 0, true, keep,
                                  again, &result, &error));
    CHECK(strcmp(again, "tty\r\n") == 0 && result->exit_code == 0);
    atoll_client_result_free(result);
    atoll_client_process_free(p);
    puts("terminals");
}

static void files(const char *id)
{
    struct atoll_client_file *file, **list;
    char *bytes;
    size_t size;
    FILE *local = tmpfile();

    MUST(atoll_client_file_mkdir(client, id, NULL, "d", &error));
    MUST(atoll_client_file_write(client, id, NULL, "d/a", 0700, "x\0y", 3, &error));
    MUST(atoll_client_file_stat(client, id, NULL, "d/a", &file, &error));
    CHECK(file->size == 3 && file->mode == 0700 && strcmp(file->owner, "user") == 0);
    atoll_client_file_free(file);
    MUST(atoll_client_file_move(client, id, NULL, "d/a", "d/b", &error));
    CHECK(atoll_client_file_list(client, id, NULL, "d", 1, &list, &error) == 1);
    CHECK(strcmp(list[0]->name, "b") == 0 && !list[1]);
    atoll_client_file_list_free(list);
    MUST(atoll_client_file_read(client, id, NULL, "d/b", (void **)&bytes, &size, &error));
    CHECK(size == 3 && memcmp(bytes, "x\0y", 4) == 0);
    atoll_client_release(bytes);
    MUST(atoll_client_file_read_fd(client, id, NULL, "d/b", fileno(local), &error));
    CHECK(lseek(fileno(local), 0, SEEK_SET) == 0);
    MUST(atoll_client_file_write_fd(client, id, "root", "/root/c", 0, fileno(local), &error));
    CHECK(atoll_client_file_stat(client, id, NULL, "/root/c", &file, &error) < 0);
    CHECK(error.code == ATOLL_CLIENT_PERMISSION_DENIED);
    MUST(atoll_client_file_remove(client, id, NULL, "d", true, &error));
    CHECK(atoll_client_file_read(client, id, NULL, "d/b", (void **)&bytes, &size, &error) < 0);
    CHECK(error.code == ATOLL_CLIENT_NOT_FOUND);
    fclose(local);
    puts("files");
}

static void states(const char *id)
{
    struct atoll_client_sandbox *box, **all;
    struct atoll_client_preview *preview;
    int n;

    MUST(atoll_client_sandbox_set_timeout(client, id, 600, &error));
    MUST(atoll_client_sandbox_pause(client, id, true, &error));
    MUST(atoll_client_sandbox_get(client, id, &box, &error));
    CHECK(strcmp(box->state, "paused") == 0);
    atoll_client_sandbox_free(box);
    MUST(atoll_client_sandbox_resume(client, id, &error));
    CHECK(atoll_client_sandbox_stop(client, id, &error) < 0);
    CHECK(error.code == ATOLL_CLIENT_FAILED_PRECONDITION);
    n = atoll_client_sandbox_list(client, false, &all, &error);
    MUST(n);
    CHECK(n >= 1 && !all[n]);
    atoll_client_sandbox_list_free(all);
    MUST(atoll_client_preview_open(client, id, 8080, false, &preview, &error));
    CHECK(preview->port == 8080 && preview->token[0] && strstr(preview->path_url, id));
    atoll_client_preview_free(preview);
    MUST(atoll_client_preview_close(client, id, 8080, &error));
    puts("states");
}

static void git(const char *id)
{
    char *json;

    MUST(atoll_client_git(client, id, "POST", "init", "{\"path\": \"w\", \"ref\": \"main\"}", NULL,
                          &error));
    MUST(atoll_client_git(client, id, "PUT", "config",
                          "{\"path\": \"w\", \"name\": \"a.b\", \"value\": \"x & y\"}", NULL,
                          &error));
    MUST(atoll_client_git(client, id, "GET", "config", "{\"path\": \"w\", \"name\": \"a.b\"}",
                          &json, &error));
    CHECK(strstr(json, "x & y"));
    atoll_client_release(json);
    MUST(atoll_client_git(client, id, "GET", "status", "{\"path\": \"w\"}", &json, &error));
    CHECK(strstr(json, "\"main\""));
    atoll_client_release(json);
    CHECK(atoll_client_git(client, id, "GET", "status", "{\"path\": \"/ & no\"}", NULL, &error) <
          0);
    CHECK(error.code == ATOLL_CLIENT_NOT_FOUND && strstr(error.message, "/ & no"));
    CHECK(atoll_client_git(client, id, "GET", "../execs", NULL, NULL, &error) < 0);
    CHECK(error.code == ATOLL_CLIENT_INVALID_ARGUMENT);
    puts("git");
}

static void sessions(void)
{
    struct atoll_client_session *session, *same;
    struct atoll_client_execution *x;
    struct atoll_client_code_options o = {.size = sizeof(o), .timeout_seconds = 30};

    MUST(atoll_client_session_create(client, "Python3", NULL, &session, &error));
    MUST(atoll_client_session_execute(client, session->id, "print(6 * 7)", &o, &x, &error));
    CHECK(strcmp(x->output[ATOLL_CLIENT_STDOUT].bytes, "42\n") == 0 && !x->error_name[0]);
    atoll_client_execution_free(x);
    MUST(atoll_client_session_execute(client, session->id, "1/0", NULL, &x, &error));
    CHECK(strcmp(x->error_name, "ZeroDivisionError") == 0);
    atoll_client_execution_free(x);
    MUST(atoll_client_session_get(client, session->id, &same, &error));
    CHECK(strcmp(same->sandbox_id, session->sandbox_id) == 0);
    atoll_client_session_free(same);
    MUST(atoll_client_session_destroy(client, session->id, &error));
    atoll_client_session_free(session);
    puts("sessions");
}

int main(void)
{
    const char *const env[] = {"WHO=tour", NULL}, *const argv[] = {"printenv", "WHO", NULL};
    struct atoll_client_sandbox_options o = {
        .size = sizeof(o), .memory_bytes = 64 << 20, .env = env};
    struct atoll_client_command c = command(argv);
    struct atoll_client_sandbox *box;
    struct atoll_client_result *result;
    char *json;

    MUST(atoll_client_open(NULL, &client, &error));
    MUST(atoll_client_run(client, &o, &c, &result, &error));
    CHECK(strcmp(result->output[ATOLL_CLIENT_STDOUT].bytes, "tour\n") == 0);
    atoll_client_result_free(result);
    MUST(atoll_client_sandbox_create(client, &o, &box, &error));
    CHECK(box->memory_bytes == 64 << 20 && strcmp(box->state, "running") == 0);
    results(box->id);
    processes(box->id);
    terminals_and_journals(box->id);
    files(box->id);
    git(box->id);
    states(box->id);
    MUST(atoll_client_sandbox_destroy(client, box->id, &error));
    CHECK(atoll_client_sandbox_destroy(client, box->id, &error) < 0);
    CHECK(error.code == ATOLL_CLIENT_NOT_FOUND);
    atoll_client_sandbox_free(box);
    sessions();
    MUST(atoll_client_request(client, "GET", "/healthz", NULL, &json, &error));
    CHECK(strstr(json, atoll_client_version()));
    atoll_client_release(json);
    atoll_client_close(client);
    puts("done");
    return 0;
}

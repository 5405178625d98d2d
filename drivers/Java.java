import java.io.ByteArrayInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;

/**
 * Java that stays: keeps its variables from one request to the next (docs/interpreter.md).
 *
 * <p>JShell does the work. It runs the code in a second virtual machine, whose output it hands to
 * us and which it can stop in the middle of a loop; so this one's descriptors are the protocol's.
 */
public class Java {
    static final int PIECE = 16 * 1024; // characters: at most 64 KiB as bytes
    static final int LATE_MAX = 1024 * 1024; // kept of what is printed between two executions
    static final String[] IMPORTS = {"java.io.*", "java.math.*", "java.net.*", "java.nio.file.*",
        "java.time.*", "java.util.*", "java.util.concurrent.*", "java.util.function.*",
        "java.util.regex.*", "java.util.stream.*"};

    final PrintStream wire = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
    final List<String[]> late = new ArrayList<>();
    int lateSize;
    long id = -1; // of the execution that runs
    int count;
    JShell shell;
    Output out, err;
    volatile boolean interruptible, interrupted;
    volatile boolean ended; // the code's virtual machine: System.exit() or a crash
    Map<String, String> error;

    public static void main(String[] args) throws Exception {
        new Java().serve();
    }

    void serve() throws Exception {
        BufferedReader requests = new BufferedReader(
            new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> interrupt());
        start();
        write("{\"type\":\"ready\",\"language\":\"java\",\"version\":"
            + quote(System.getProperty("java.version")) + "}");
        for (String line; (line = requests.readLine()) != null;)
            execute((Map<?, ?>) new Json(line).value());
        shell.close();
        Runtime.getRuntime().halt(0);
    }

    // The shell

    void start() {
        out = new Output("stdout");
        err = new Output("stderr");
        shell = JShell.builder().out(new PrintStream(out, true)).err(new PrintStream(err, true))
            .in(new ByteArrayInputStream(new byte[0]))
            .remoteVMOptions("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dfile.encoding=UTF-8")
            .build();
        ended = false;
        shell.onShutdown(s -> ended = true);
        for (String name : IMPORTS)
            shell.eval("import " + name + ";");
        // The environment is read as properties, which a call can set.
        shell.eval("System.getenv().forEach((k, v) -> "
            + "{ if (System.getProperty(k) == null) System.setProperty(k, v); });");
    }

    /** Until the code has ended: a snippet that is not running yet cannot be stopped. */
    void interrupt() {
        if (!interruptible)
            return;
        interrupted = true;
        while (interruptible) {
            shell.stop();
            try {
                Thread.sleep(200);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    void execute(Map<?, ?> request) {
        Map<?, ?> env = request.get("env") instanceof Map<?, ?> m ? m : Map.of();
        error = null;
        interrupted = false;
        begin(((Number) request.get("id")).longValue());
        try {
            Map<String, String> before = setProperties(env);
            evaluate((String) request.get("code"));
            restoreProperties(before);
        } catch (IllegalStateException e) {
            ended = true;
        }
        if (ended && !interrupted)
            fail("InterpreterEnded", "the virtual machine has ended",
                "the virtual machine has ended; its variables are gone, the next call has another");
        if (ended)
            start();
        out.finish();
        err.finish();
        if (interrupted)
            fail("KeyboardInterrupt", "", "KeyboardInterrupt");
        if (error != null)
            send("error", error);
        synchronized (this) {
            send("end_of_execution", Map.of());
            id = -1;
        }
    }

    Map<String, String> setProperties(Map<?, ?> env) {
        Map<String, String> before = new LinkedHashMap<>();
        for (Map.Entry<?, ?> e : env.entrySet()) {
            String name = (String) e.getKey();
            SnippetEvent set = shell.eval("System.setProperty(" + quote(name) + ", "
                + quote((String) e.getValue()) + ")").get(0);
            before.put(name, set.value()); // as a literal, or null
        }
        return before;
    }

    void restoreProperties(Map<String, String> before) {
        before.forEach((name, literal) -> shell.eval(literal == null || literal.equals("null")
            ? "System.clearProperty(" + quote(name) + ")"
            : "System.setProperty(" + quote(name) + ", " + literal + ")"));
    }

    /** Runs the snippets of a cell until one fails. */
    void evaluate(String code) {
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        while (!code.isBlank() && error == null && !interrupted) {
            SourceCodeAnalysis.CompletionInfo info = analysis.analyzeCompletion(code);
            String source = info.source() == null ? code : info.source();
            code = info.source() == null ? "" : info.remaining();
            interruptible = true;
            List<SnippetEvent> events = shell.eval(source);
            interruptible = false;
            for (SnippetEvent event : events)
                if (event.causeSnippet() == null)
                    take(event, code.isBlank());
        }
    }

    void take(SnippetEvent event, boolean isLast) {
        Snippet snippet = event.snippet();
        if (event.exception() != null) {
            take(event.exception());
        } else if (event.status() == Snippet.Status.REJECTED) {
            StringBuilder text = new StringBuilder();
            shell.diagnostics(snippet).filter(Diag::isError)
                .forEach(d -> text.append(d.getMessage(Locale.ENGLISH)).append('\n'));
            String first = text.toString().strip();
            fail("CompilationError", first.lines().findFirst().orElse(""), snippet.source().strip()
                + "\n" + first);
        } else if (isLast && isValue(snippet) && event.value() != null) {
            out.finish();
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("text", unquote(event.value()));
            fields.put("is_main_result", true);
            fields.put("extra", Map.of());
            send("result", fields);
        }
    }

    /** Expressions, not assignments; JShell keeps the value of most in a variable of its own. */
    static boolean isValue(Snippet snippet) {
        return snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND
            || snippet.kind() == Snippet.Kind.EXPRESSION
            && snippet.subKind() != Snippet.SubKind.ASSIGNMENT_SUBKIND;
    }

    void take(JShellException exception) {
        if (exception instanceof EvalException e) {
            StringBuilder trace = new StringBuilder(e.getExceptionClassName());
            trace.append(": ").append(e.getMessage());
            for (StackTraceElement frame : e.getStackTrace())
                trace.append("\n    at ").append(frame.getFileName() == null
                    || !frame.getFileName().startsWith("#") ? frame : place(frame));
            String name = e.getExceptionClassName();
            fail(name.substring(name.lastIndexOf('.') + 1), String.valueOf(e.getMessage()),
                trace.toString());
        } else {
            fail(exception.getClass().getSimpleName(), String.valueOf(exception.getMessage()),
                String.valueOf(exception));
        }
    }

    /** Snippets are called #1, #2 and so on, and live in classes whose names say nothing. */
    static String place(StackTraceElement frame) {
        String where = frame.getFileName() + ":" + frame.getLineNumber();
        return List.of("", "do_it$").contains(frame.getMethodName()) ? where
            : frame.getMethodName() + " (" + where + ")";
    }

    void fail(String name, String value, String traceback) {
        error = new LinkedHashMap<>();
        error.put("name", name);
        error.put("value", value);
        error.put("traceback", traceback);
    }

    // The wire

    synchronized void begin(long requestId) {
        id = requestId;
        send("number_of_executions", Map.of("execution_count", ++count));
        List<String[]> waiting = new ArrayList<>(late);
        late.clear();
        lateSize = 0;
        for (String[] one : waiting)
            sendText(one[0], one[1]);
    }

    synchronized void write(String line) {
        wire.print(line + "\n");
        wire.flush();
    }

    synchronized void send(String type, Map<String, ?> fields) {
        StringBuilder line = new StringBuilder("{\"id\":" + id + ",\"type\":" + quote(type));
        fields.forEach((k, v) -> line.append(',').append(quote(k)).append(':').append(
            v instanceof String s ? quote(s) : v instanceof Map ? "{}" : String.valueOf(v)));
        write(line.append('}').toString());
    }

    synchronized void sendText(String kind, String text) {
        if (id < 0) {
            if (lateSize + text.length() <= LATE_MAX) {
                late.add(new String[] {kind, text});
                lateSize += text.length();
            }
            return;
        }
        for (int at = 0; at < text.length(); at += PIECE) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("text", text.substring(at, Math.min(text.length(), at + PIECE)));
            fields.put("timestamp", Instant.now().truncatedTo(ChronoUnit.MICROS).toString());
            send(kind, fields);
        }
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\')
                quoted.append('\\').append(c);
            else if (c == '\n')
                quoted.append("\\n");
            else if (c < ' ' || c > '~')
                quoted.append(String.format("\\u%04x", (int) c));
            else
                quoted.append(c);
        }
        return quoted.append('"').toString();
    }

    static String unquote(String value) {
        if (value.length() < 2 || value.charAt(0) != '"' || !value.endsWith("\""))
            return value;
        try {
            return value.substring(1, value.length() - 1).translateEscapes();
        } catch (IllegalArgumentException e) {
            return value.substring(1, value.length() - 1);
        }
    }

    /**
     * What the code prints: sent at the end of each line, or when it is asked to finish. The newline
     * at the end is sent by itself, as E2B's interpreter does, whose clients compare the first piece.
     */
    class Output extends OutputStream {
        final String kind;
        final CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder()
            .onMalformedInput(CodingErrorAction.REPLACE)
            .onUnmappableCharacter(CodingErrorAction.REPLACE);
        final ByteBuffer bytes = ByteBuffer.allocate(4 * PIECE);
        final StringBuilder waiting = new StringBuilder();

        Output(String kind) {
            this.kind = kind;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] data, int from, int length) {
            while (length > 0) {
                int n = Math.min(length, bytes.remaining());
                bytes.put(data, from, n);
                from += n;
                length -= n;
                decode();
            }
            int end = waiting.lastIndexOf("\n") + 1;
            if (end > 1)
                send(end - 1);
            if (end > 0)
                send(1);
            else if (waiting.length() > PIECE)
                send(waiting.length());
        }

        void decode() {
            CharBuffer chars = CharBuffer.allocate(bytes.capacity());
            bytes.flip();
            decoder.decode(bytes, chars, false);
            bytes.compact();
            waiting.append(chars.flip());
        }

        void send(int end) {
            sendText(kind, waiting.substring(0, end));
            waiting.delete(0, end);
        }

        synchronized void finish() {
            if (waiting.length() > 0)
                send(waiting.length());
        }
    }

    /** Reads one JSON value. */
    static class Json {
        final String text;
        int at;

        Json(String text) {
            this.text = text;
        }

        char next() {
            while (Character.isWhitespace(text.charAt(at)))
                at++;
            return text.charAt(at);
        }

        Object value() {
            switch (next()) {
            case '{': return object();
            case '[': return array();
            case '"': return string();
            default: return word();
            }
        }

        Map<String, Object> object() {
            Map<String, Object> found = new LinkedHashMap<>();
            at++;
            while (next() != '}') {
                if (text.charAt(at) == ',')
                    at++;
                next();
                String key = string();
                next();
                at++; // the colon
                found.put(key, value());
            }
            at++;
            return found;
        }

        List<Object> array() {
            List<Object> found = new ArrayList<>();
            at++;
            while (next() != ']') {
                if (text.charAt(at) == ',')
                    at++;
                else
                    found.add(value());
            }
            at++;
            return found;
        }

        String string() {
            StringBuilder found = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                char c = text.charAt(at);
                if (c != '\\') {
                    found.append(c);
                    continue;
                }
                c = text.charAt(++at);
                int escape = "nrtbf".indexOf(c);
                if (c == 'u') {
                    found.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                    at += 4;
                } else {
                    found.append(escape >= 0 ? "\n\r\t\b\f".charAt(escape) : c);
                }
            }
            at++;
            return found.toString();
        }

        Object word() {
            int start = at;
            while (at < text.length() && ",]} \t".indexOf(text.charAt(at)) < 0)
                at++;
            String word = text.substring(start, at);
            switch (word) {
            case "true": return true;
            case "false": return false;
            case "null": return null;
            default: return Double.valueOf(word);
            }
        }
    }
}

package penstock.flink;

import java.util.ArrayList;
import java.util.List;

/** Splits a SQL script at semicolons that are neither quoted nor in comments. */
final class SqlPieces {
    private SqlPieces() {}

    /** Text without its semicolon, and the line on which it begins (from 1). */
    static final class Piece {
        final String text;
        final int line;

        Piece(String text, int line) {
            this.text = text;
            this.line = line;
        }
    }

    static List<Piece> of(String script) {
        List<Piece> pieces = new ArrayList<>();
        int start = 0;
        boolean hasCode = false;
        for (int i = 0; i < script.length(); i++) {
            char c = script.charAt(i);
            if (c == '\'' || c == '"' || c == '`') {
                i = end(script, i + 1, String.valueOf(c));
                hasCode = true;
            } else if (script.startsWith("--", i)) {
                i = end(script, i + 2, "\n");
            } else if (script.startsWith("/*", i) && !script.startsWith("/*+", i)) {
                i = end(script, i + 2, "*/") + 1;
            } else if (c == ';') {
                add(pieces, script, start, i, hasCode);
                start = i + 1;
                hasCode = false;
            } else {
                hasCode |= !Character.isWhitespace(c);
            }
        }
        add(pieces, script, start, script.length(), hasCode);
        return pieces;
    }

    /** Returns where `mark` ends a quote or comment that began before `from`; the script's end if it is missing. */
    private static int end(String script, int from, String mark) {
        int at = script.indexOf(mark, from);
        return at < 0 ? script.length() : at;
    }

    private static void add(List<Piece> pieces, String script, int start, int end, boolean hasCode) {
        if (!hasCode) {
            return;
        }
        String text = script.substring(start, Math.min(end, script.length()));
        String before = script.substring(0, start) + text.substring(0, text.length() - text.stripLeading().length());
        pieces.add(new Piece(text, 1 + (int) before.chars().filter(c -> c == '\n').count()));
    }
}

package penstock.flink;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableConfig;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.api.bridge.internal.AbstractStreamTableEnvironmentImpl;
import org.apache.flink.table.api.bridge.java.internal.StreamTableEnvironmentImpl;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;
import org.apache.flink.table.api.internal.TableEnvironmentInternal;
import org.apache.flink.table.catalog.CatalogManager;
import org.apache.flink.table.catalog.FunctionCatalog;
import org.apache.flink.table.delegation.Executor;
import org.apache.flink.table.delegation.Planner;
import org.apache.flink.table.factories.PlannerFactoryUtil;
import org.apache.flink.table.module.ModuleManager;
import org.apache.flink.table.operations.BeginStatementSetOperation;
import org.apache.flink.table.operations.EndStatementSetOperation;
import org.apache.flink.table.operations.ModifyOperation;
import org.apache.flink.table.operations.Operation;
import org.apache.flink.table.operations.StatementSetOperation;
import org.apache.flink.table.operations.command.ClearOperation;
import org.apache.flink.table.operations.command.HelpOperation;
import org.apache.flink.table.operations.command.QuitOperation;
import org.apache.flink.table.operations.command.ResetOperation;
import org.apache.flink.table.operations.command.SetOperation;
import org.apache.flink.table.resource.ResourceManager;

/**
 * Runs a SQL script like Flink's SQL client, for a distribution without the SQL gateway that this client needs.
 *
 * <p>As in a session of the gateway, each statement gets an environment of its own, made of the options that are
 * set by then, while catalogs, modules and functions stay.
 */
public final class SqlScript {
    private final Map<String, String> initial;
    private final Map<String, String> options;
    private final CatalogManager catalogs;
    private final ModuleManager modules;
    private final ResourceManager resources;
    private final FunctionCatalog functions;

    /** Statements of an unfinished statement set; null outside of one. */
    private List<ModifyOperation> statementSet;

    private SqlScript(Map<String, String> initial) {
        this.initial = initial;
        // Flink requires one, and Penstock replaces it.
        initial.putIfAbsent(DeploymentOptions.TARGET.key(), "local");
        this.options = new LinkedHashMap<>(initial);
        Configuration configuration = Configuration.fromMap(options);
        TableEnvironmentImpl first =
                (TableEnvironmentImpl)
                        StreamTableEnvironment.create(
                                new StreamExecutionEnvironment(configuration),
                                EnvironmentSettings.newInstance().withConfiguration(configuration).build());
        catalogs = (CatalogManager) FlinkVersions.field(first, TableEnvironmentImpl.class, "catalogManager");
        modules = (ModuleManager) FlinkVersions.field(first, TableEnvironmentImpl.class, "moduleManager");
        resources = (ResourceManager) FlinkVersions.field(first, TableEnvironmentImpl.class, "resourceManager");
        functions = (FunctionCatalog) FlinkVersions.field(first, TableEnvironmentImpl.class, "functionCatalog");
    }

    /** Arguments: the script, then options as KEY=VALUE. */
    public static void main(String[] arguments) throws Exception {
        String text = Files.readString(Path.of(arguments[0]), StandardCharsets.UTF_8);
        Map<String, String> options = new LinkedHashMap<>(GlobalConfiguration.loadConfiguration().toMap());
        for (int i = 1; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            options.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
        }
        new SqlScript(options).run(SqlPieces.of(text));
        System.exit(0);
    }

    private void run(List<SqlPieces.Piece> pieces) {
        StringBuilder statement = new StringBuilder();
        int line = 0;
        for (int i = 0; i < pieces.size(); i++) {
            String text = pieces.get(i).text;
            if (statement.length() == 0) {
                line = pieces.get(i).line;
                text = text.stripLeading();
            }
            statement.append(text).append(';');
            try {
                if (!execute(statement.toString(), i + 1 == pieces.size())) {
                    continue;
                }
            } catch (Quit quit) {
                return;
            } catch (Exception | StackOverflowError e) {
                fail(line, e);
            }
            statement.setLength(0);
        }
        if (statementSet != null) {
            fail(line, new IllegalStateException("a statement set has begun, and END; is missing"));
        }
    }

    /** Returns false if more text belongs to the statement: semicolons in EXECUTE STATEMENT SET do not end it. */
    private boolean execute(String statement, boolean isLast) {
        TableEnvironmentInternal environment = environment();
        List<Operation> operations;
        try {
            operations = environment.getParser().parse(statement);
        } catch (RuntimeException e) {
            if (!isLast && endsTooEarly(e)) {
                return false;
            }
            throw e;
        }
        for (Operation operation : operations) {
            execute(environment, operation);
        }
        return true;
    }

    private static boolean endsTooEarly(Throwable e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause.getClass().getSimpleName().equals("SqlParserEOFException")) {
                return true;
            }
        }
        return false;
    }

    private void execute(TableEnvironmentInternal environment, Operation operation) {
        if (operation instanceof QuitOperation) {
            throw new Quit();
        } else if (operation instanceof HelpOperation || operation instanceof ClearOperation) {
            return;
        } else if (operation instanceof EndStatementSetOperation) {
            List<ModifyOperation> all = statementSet;
            statementSet = null;
            if (all == null || all.isEmpty()) {
                throw new IllegalStateException("END of a statement set without a statement");
            }
            environment.executeInternal(all);
        } else if (statementSet != null) {
            if (!(operation instanceof ModifyOperation)) {
                throw new IllegalStateException("only INSERT statements are allowed in a statement set");
            }
            statementSet.add((ModifyOperation) operation);
        } else if (operation instanceof BeginStatementSetOperation) {
            statementSet = new ArrayList<>();
        } else if (operation instanceof SetOperation) {
            set((SetOperation) operation);
        } else if (operation instanceof ResetOperation) {
            reset((ResetOperation) operation);
        } else if (operation instanceof ModifyOperation) {
            environment.executeInternal(Collections.singletonList((ModifyOperation) operation));
        } else if (operation instanceof StatementSetOperation) {
            environment.executeInternal(((StatementSetOperation) operation).getOperations());
        } else {
            environment.executeInternal(operation);
        }
    }

    private void set(SetOperation operation) {
        if (operation.getKey().isPresent() && operation.getValue().isPresent()) {
            options.put(operation.getKey().get().trim(), operation.getValue().get().trim());
        }
    }

    private void reset(ResetOperation operation) {
        if (!operation.getKey().isPresent()) {
            options.clear();
            options.putAll(initial);
            return;
        }
        String key = operation.getKey().get().trim();
        if (initial.containsKey(key)) {
            options.put(key, initial.get(key));
        } else {
            options.remove(key);
        }
    }

    private TableEnvironmentInternal environment() {
        Configuration configuration = Configuration.fromMap(options);
        EnvironmentSettings settings = EnvironmentSettings.newInstance().withConfiguration(configuration).build();
        TableConfig tableConfig = TableConfig.getDefault();
        tableConfig.setRootConfiguration(Configuration.fromMap(initial));
        tableConfig.addConfiguration(configuration);
        ClassLoader classLoader = resources.getUserClassLoader();
        StreamExecutionEnvironment streams =
                new StreamExecutionEnvironment(Configuration.fromMap(options), classLoader);
        Executor executor = AbstractStreamTableEnvironmentImpl.lookupExecutor(classLoader, streams);
        Planner planner =
                PlannerFactoryUtil.createPlanner(executor, tableConfig, classLoader, modules, catalogs, functions);
        return new StreamTableEnvironmentImpl(
                catalogs,
                modules,
                resources,
                functions,
                tableConfig,
                streams,
                planner,
                executor,
                settings.isStreamingMode());
    }

    private static void fail(int line, Throwable e) {
        System.err.println("[ERROR] the statement on line " + line + " fails:");
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            System.err.println(cause);
        }
        System.exit(1);
    }

    /** QUIT and EXIT end a script. */
    private static final class Quit extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }
}

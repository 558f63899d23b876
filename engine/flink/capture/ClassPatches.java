package penstock.flink;

import org.apache.flink.shaded.asm9.org.objectweb.asm.ClassReader;
import org.apache.flink.shaded.asm9.org.objectweb.asm.ClassVisitor;
import org.apache.flink.shaded.asm9.org.objectweb.asm.ClassWriter;
import org.apache.flink.shaded.asm9.org.objectweb.asm.MethodVisitor;
import org.apache.flink.shaded.asm9.org.objectweb.asm.Opcodes;
import org.apache.flink.shaded.asm9.org.objectweb.asm.Type;

/** Class files that replace Flink's, written with the ASM in Flink's jars. */
final class ClassPatches {
    private static final int ASM = Opcodes.ASM9;
    private static final String FACTORY = "org/apache/flink/core/execution/PipelineExecutorFactory";
    private static final String GET_FACTORY = "getExecutorFactory";
    private static final String GET_FACTORY_TYPE = "(Lorg/apache/flink/configuration/Configuration;)L" + FACTORY + ";";
    private static final String STREAM_GRAPH = "org/apache/flink/streaming/api/graph/StreamGraph";
    private static final String TYPE_INFORMATION = "org/apache/flink/api/common/typeinfo/TypeInformation";
    private static final String HOOKS = "penstock/flink/Hooks";

    private ClassPatches() {}

    /** Makes the loader of executors always find the capturing one. */
    static byte[] capture(byte[] classFile) {
        return patch(
                classFile,
                GET_FACTORY,
                GET_FACTORY_TYPE,
                (original, owner) -> {
                    original.visitCode();
                    original.visitMethodInsn(
                            Opcodes.INVOKESTATIC, HOOKS, "capturingFactory", "()L" + FACTORY + ";", false);
                    original.visitInsn(Opcodes.ARETURN);
                    original.visitMaxs(0, 0);
                    original.visitEnd();
                    return null;
                });
    }

    /** Wraps the executors that the loader finds. */
    static byte[] observe(byte[] classFile) {
        return patch(
                classFile,
                GET_FACTORY,
                GET_FACTORY_TYPE,
                (original, owner) ->
                        new MethodVisitor(ASM, original) {
                            @Override
                            public void visitInsn(int opcode) {
                                if (opcode == Opcodes.ARETURN) {
                                    super.visitMethodInsn(
                                            Opcodes.INVOKESTATIC,
                                            HOOKS,
                                            "observingFactory",
                                            "(L" + FACTORY + ";)L" + FACTORY + ";",
                                            false);
                                }
                                super.visitInsn(opcode);
                            }
                        });
    }

    /** Prevents objects of the class. */
    static byte[] refuse(byte[] classFile) {
        return patch(
                classFile,
                "<init>",
                null,
                (original, owner) -> {
                    original.visitCode();
                    original.visitLdcInsn(owner.replace('/', '.'));
                    original.visitMethodInsn(
                            Opcodes.INVOKESTATIC, HOOKS, "refuseCluster", "(Ljava/lang/String;)Ljava/lang/Error;", false);
                    original.visitInsn(Opcodes.ATHROW);
                    original.visitMaxs(0, 0);
                    original.visitEnd();
                    return null;
                });
    }

    /** Makes a StreamGraph report the output type of each added operator. */
    static byte[] rememberOutputTypes(byte[] classFile) {
        ClassReader reader = new ClassReader(classFile);
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        reader.accept(
                new ClassVisitor(ASM, writer) {
                    @Override
                    public MethodVisitor visitMethod(
                            int access, String method, String type, String signature, String[] exceptions) {
                        MethodVisitor original = super.visitMethod(access, method, type, signature, exceptions);
                        int local = method.matches("add\\w*Operator") ? localOfOutputType(type) : -1;
                        return local < 0 ? original : rememberingOutputType(original, local);
                    }
                },
                0);
        return writer.toByteArray();
    }

    private static MethodVisitor rememberingOutputType(MethodVisitor original, int local) {
        return new MethodVisitor(ASM, original) {
            @Override
            public void visitCode() {
                super.visitCode();
                super.visitVarInsn(Opcodes.ALOAD, 0);
                super.visitVarInsn(Opcodes.ALOAD, 1);
                super.visitVarInsn(Opcodes.ALOAD, local);
                super.visitMethodInsn(
                        Opcodes.INVOKESTATIC,
                        "penstock/flink/OutputTypes",
                        "remember",
                        "(L" + STREAM_GRAPH + ";Ljava/lang/Integer;L" + TYPE_INFORMATION + ";)V",
                        false);
            }
        };
    }

    /** Returns the place of the last type information among the arguments, if the first is the node's id; else -1. */
    private static int localOfOutputType(String methodType) {
        Type[] arguments = Type.getArgumentTypes(methodType);
        int local = 1;
        int found = -1;
        for (Type argument : arguments) {
            found = argument.getInternalName().equals(TYPE_INFORMATION) ? local : found;
            local += argument.getSize();
        }
        return arguments.length > 0 && arguments[0].getInternalName().equals("java/lang/Integer") ? found : -1;
    }

    /** Visits a method in place of the writer; null drops the method's code. */
    @FunctionalInterface
    private interface MethodPatch {
        MethodVisitor of(MethodVisitor original, String owner);
    }

    private static byte[] patch(byte[] classFile, String name, String descriptor, MethodPatch patch) {
        ClassReader reader = new ClassReader(classFile);
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        int[] patched = new int[1];
        reader.accept(
                new ClassVisitor(ASM, writer) {
                    @Override
                    public MethodVisitor visitMethod(
                            int access, String method, String type, String signature, String[] exceptions) {
                        MethodVisitor original = super.visitMethod(access, method, type, signature, exceptions);
                        boolean matches = method.equals(name) && (descriptor == null || type.equals(descriptor));
                        patched[0] += matches ? 1 : 0;
                        return matches ? patch.of(original, reader.getClassName()) : original;
                    }
                },
                0);
        if (patched[0] == 0) {
            throw new IllegalStateException(reader.getClassName() + " has no method " + name);
        }
        return writer.toByteArray();
    }
}

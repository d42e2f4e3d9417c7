// RabbitMQ's Java client: what the test of this language expects line by line. Arguments: host, port, prefix of names.
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Program {
    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(arguments[0]);
        factory.setPort(Integer.parseInt(arguments[1]));
        factory.setAutomaticRecoveryEnabled(false);
        String exchange = arguments[2] + "-exchange";
        String queue = arguments[2] + "-queue";
        Connection connection = factory.newConnection("java program");
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        channel.exchangeDeclare(exchange, "topic", true);
        channel.queueDeclare(queue, true, false, false, Map.of("x-max-length", 1000));
        channel.queueBind(queue, exchange, "*.orders");
        System.out.println("declared and bound");

        channel.basicQos(2);
        AMQP.BasicProperties properties =
            new AMQP.BasicProperties.Builder().deliveryMode(2).headers(Map.of("number", 1)).build();
        for (String body : List.of("a", "b", "c")) {
            channel.basicPublish(exchange, "eu.orders", properties, body.getBytes());
        }
        channel.basicPublish(exchange, "eu.returns", null, "elsewhere".getBytes());
        channel.waitForConfirmsOrDie(10_000);
        System.out.println("confirmed");

        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        String tag = channel.basicConsume(queue, false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties given, byte[] body)
                throws IOException {
                String text = new String(body);
                if (text.equals("b") && !envelope.isRedeliver()) {
                    channel.basicNack(envelope.getDeliveryTag(), false, true);
                    return;
                }
                channel.basicAck(envelope.getDeliveryTag(), false);
                seen.add(given.getHeaders().get("number").equals(1) ? text : "headers");
            }
        });
        TreeSet<String> bodies = new TreeSet<>();
        for (int count = 0; count < 3; count++) {
            bodies.add(seen.poll(10, TimeUnit.SECONDS));
        }
        channel.basicCancel(tag);
        System.out.println("consumed " + String.join(" ", bodies));

        channel.basicPublish("", queue, null, "d".getBytes());
        channel.waitForConfirmsOrDie(10_000);
        GetResponse got = channel.basicGet(queue, false);
        channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
        System.out.println(
            "got " + new String(got.getBody()) + ", then " + (channel.basicGet(queue, false) == null ? "nothing" : "more"));

        try {
            connection.createChannel().queueDeclarePassive(arguments[2] + "-missing");
        } catch (IOException error) {
            AMQP.Channel.Close close = (AMQP.Channel.Close) ((ShutdownSignalException) error.getCause()).getReason();
            System.out.println("refused " + close.getReplyCode() + " " + close.getReplyText());
        }
        channel.queueDelete(queue);
        channel.exchangeDelete(exchange);
        connection.close();
        System.out.println("closed");
    }
}
